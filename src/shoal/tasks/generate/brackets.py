"""Where a JSON object ends, however it is cut into pieces. Pure.

Counts brackets outside of strings and checks nothing else: what a model writes need not be JSON.
"""

from __future__ import annotations

import re
from typing import Literal

_OUTSIDE = re.compile(r'["{}\[\]<]')
_INSIDE = re.compile(r'["\\\x00-\x1f]')
#: JSON has no line break in a string, so one with it was never closed, and a mark in it counts.
_BROKEN = re.compile(r'["\\<]')


class Brackets:
    """Reads an object to its end, or to a `mark` that comes before, outside of strings."""

    def __init__(self, mark: str = "", depth: int = 0) -> None:
        """`mark`: begins with ``<``. `depth`: brackets that are open already."""
        self._mark = mark
        self._depth = depth
        self._where = _OUTSIDE
        self._escaped = False

    def feed(self, text: str) -> tuple[int, Literal["open", "closed", "marked"]]:
        """How much of the text is the object's, and whether it ends there.

        What may be the beginning of the mark is not read; it is fed again with what follows.
        """
        at, self._escaped = int(self._escaped and bool(text)), self._escaped and not text
        while (found := self._where.search(text, at)) is not None:
            at = found.end()
            match found[0]:
                case "<":
                    beyond = text[at - 1 : at - 1 + len(self._mark)]
                    if self._mark and self._mark.startswith(beyond):
                        return at - 1, "marked" if beyond == self._mark else "open"
                case '"':
                    self._where = _INSIDE if self._where is _OUTSIDE else _OUTSIDE
                case "\\":
                    self._escaped = at == len(text)
                    at += not self._escaped
                case "{" | "[":
                    self._depth += 1
                case "}" | "]":
                    self._depth -= 1
                    if self._depth == 0:
                        return at, "closed"
                case _:
                    self._where = _BROKEN
        return len(text), "open"
