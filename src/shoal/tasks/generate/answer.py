"""What is told of a generated text as it comes: the answer, and apart from it reasoning and calls of tools.

Decides that a whole is its deltas joined, so that who reads a stream and who waits are told the same. Pure.
"""

from __future__ import annotations

from itertools import groupby
from typing import Protocol

import msgspec

from shoal.wire.objects import ToolCall


class Said(msgspec.Struct, frozen=True):
    """More of the answer."""

    text: str


class Thought(msgspec.Struct, frozen=True):
    """More of what the model thinks before it answers."""

    text: str


class Called(msgspec.Struct, frozen=True):
    """A call begins, with its `name`, or goes on (None).

    Attributes:
        index: which call, from 0; they begin and end one after the other.
        text: more of its arguments, as the model writes them.
    """

    index: int
    name: str | None
    text: str


Delta = Said | Thought | Called


class Answer(Protocol):
    """One text as it comes; what deltas say does not depend on how it was cut into pieces."""

    def feed(self, text: str) -> list[Delta]:
        """What is sure so far, and was not told before."""
        ...

    def end(self, text: str, *, complete: bool) -> list[Delta]:
        """The rest, `text` the last; `complete`: it was not cut off."""
        ...


class Plain:
    """A text as it is."""

    def feed(self, text: str) -> list[Delta]:
        return said(text)

    def end(self, text: str, *, complete: bool) -> list[Delta]:
        return said(text)


def said(text: str) -> list[Delta]:
    """Nothing, where there is no text."""
    return [Said(text)] if text else []


def thought(text: str) -> list[Delta]:
    """Likewise."""
    return [Thought(text)] if text else []


class Whole:
    """Deltas joined."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[tuple[str, list[str]]] = []

    def add(self, deltas: list[Delta]) -> None:
        """The next ones."""
        for delta in deltas:
            match delta:
                case Said(text):
                    self._text.append(text)
                case Thought(text):
                    self._reasoning.append(text)
                case Called(_, None, text):
                    self._calls[-1][1].append(text)
                case Called(_, str(name), text):
                    self._calls.append((name, [text]))

    @property
    def text(self) -> str:
        """The answer."""
        return "".join(self._text)

    @property
    def reasoning(self) -> str | None:
        """None where there is none."""
        return "".join(self._reasoning) or None

    @property
    def calls(self) -> list[ToolCall]:
        """Those that were begun, the last one maybe cut off."""
        return [ToolCall(name, "".join(parts)) for name, parts in self._calls]


def coalesced(deltas: list[Delta]) -> list[Delta]:
    """Those that go on with the one before joined to it."""
    if len(deltas) < 2:
        return deltas  # as most tokens give
    return [_joined(list(run)) for _, run in groupby(deltas, _kind)]


def _kind(delta: Delta) -> tuple[type, int]:
    return type(delta), delta.index if isinstance(delta, Called) else 0


def _joined(run: list[Delta]) -> Delta:
    return msgspec.structs.replace(run[0], text="".join(delta.text for delta in run))
