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
    longest = max((len(mark) for mark in marks), default=0) - 1
    for count in range(min(longest, len(text)), 0, -1):
        end = text[len(text) - count :]
        if any(len(mark) > count and mark.startswith(end) for mark in marks):
            return count
    return 0
