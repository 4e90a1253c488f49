"""Calls of tools that are a text by themselves, without tags. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection

from shoal.tasks.generate.brackets import Brackets
from shoal.tasks.generate.calls import Calls, read_call, read_head

#: What stands before the first call, and before others.
_FIRST, _NEXT = re.compile(r"\s*(?:\[\s*)?"), re.compile(r"[\s,;\]]*")


class BareCalls(Calls):
    """A text that begins with calls: a JSON object, several, or a list of them (Llama 3).

    What begins with anything else is text, and so is what follows the calls.
    """

    def __init__(self, names: Collection[str]) -> None:
        """`names`: of what may be called; other objects are answers."""
        super().__init__("between", "")
        self._names = names
        self._before = ""  # of the first object: text, unless that is a call
        self._read = 0

    def _rest(self, *, complete: bool) -> None:
        if self._at == "head" or (self._at == "between" and not self._calls):
            self._say(self._before + self._held)

    def _text(self) -> bool:
        self._say(self._before + self._held)
        self._before = self._held = ""
        return False

    def _between(self) -> bool:
        blanks = (_NEXT if self._calls else _FIRST).match(self._held)
        assert blanks is not None, "of none it is nothing"
        if (end := blanks.end()) == len(self._held):
            return False
        self._before = "" if self._calls else self._held[:end]
        self._held = self._held[end:]
        self._at, self._brackets, self._read = "text", Brackets(), 0
        if self._held[0] == "{":
            self._at = "head"
        return True

    def _head(self) -> bool:
        """Held is an object."""
        if (head := read_head(self._held)) is not None:
            if head.name in self._names:
                return self._begin(head)
            self._at = "text"
            return True
        end, how = self._brackets.feed(self._held[self._read :])
        self._read += end
        if how == "open":
            return False
        call = read_call(self._held[: self._read])
        if call is None or call.name not in self._names:
            self._at = "text"
        else:
            self._call(call)
            self._at, self._held = "between", self._held[self._read :]
        return True
