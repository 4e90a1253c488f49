"""What is told of a generated text: the answer, and apart from it reasoning and calls of tools. Pure."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from shoal.wire.objects import ToolCall


class Whole(NamedTuple):
    """A text that has ended."""

    text: str
    reasoning: str | None = None
    calls: list[ToolCall] = []


class Answer(Protocol):
    """One text as it comes."""

    def feed(self, text: str) -> str:
        """What is sure of the answer so far, and was not given before."""
        ...

    def end(self, text: str, *, complete: bool) -> Whole:
        """All of it, `text` the last; `complete`: it was not cut off."""
        ...


class Plain:
    """A text as it is."""

    def __init__(self) -> None:
        self._parts: list[str] = []

    def feed(self, text: str) -> str:
        self._parts.append(text)
        return text

    def end(self, text: str, *, complete: bool) -> Whole:
        return Whole("".join([*self._parts, text]))
