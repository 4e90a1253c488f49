"""Texts that end a text: looked for as it comes, held back while they may be coming. Pure."""

from __future__ import annotations

from collections.abc import Sequence


class Stops:
    """The one that is complete first ends it, of several at one place the longest.

    So what is found does not depend on how the text was cut into pieces.

    Attributes:
        found: one came; the text ended before it.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = [stop for stop in stops if stop]
        self._held = ""
        self.found = False

    def feed(self, text: str) -> str:
        """What is sure of the text so far, and was not given before."""
        if self.found or not self._stops:
            return "" if self.found else text
        text = self._held + text
        if (start := self._start(text)) is not None:
            self.found, self._held = True, ""
            return text[:start]
        held = kept_back(text, self._stops)
        self._held = text[len(text) - held :]
        return text[: len(text) - held]

    def end(self) -> str:
        """What was held back, where nothing more comes."""
        rest, self._held = self._held, ""
        return rest

    def _start(self, text: str) -> int | None:
        found = [(at + len(s), at) for s in self._stops if (at := text.find(s)) >= 0]
        return min(found)[1] if found else None


def kept_back(text: str, marks: Sequence[str]) -> int:
    """How many of the last characters may be the beginning of one of `marks`."""
    return max((_beginning(text, mark) for mark in marks), default=0)


def _beginning(text: str, mark: str) -> int:
    """How many of the last characters are the first ones of `mark`, which has more than those."""
    start = text.find(mark[0], max(0, len(text) - len(mark) + 1))
    while start >= 0:
        if mark.startswith(text[start:]):
            return len(text) - start
        start = text.find(mark[0], start + 1)
    return 0
