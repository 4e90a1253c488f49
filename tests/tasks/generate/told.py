"""Answers that a test feeds, in pieces."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from shoal.tasks.generate.answer import Answer, Delta, Said, Whole
from shoal.wire.objects import ToolCall

Told = tuple[str, str | None, list[ToolCall]]


def deltas(of: Answer, pieces: Iterable[str], *, complete: bool = True) -> list[Delta]:
    """All that come, to the end."""
    found = [delta for piece in pieces for delta in of.feed(piece)]
    return found + of.end("", complete=complete)


def told(of: Answer, pieces: Iterable[str], *, complete: bool = True) -> Told:
    """What they say: text, reasoning, calls."""
    whole = Whole()
    whole.add(deltas(of, pieces, complete=complete))
    return whole.text, whole.reasoning, whole.calls


def parted(text: str, cuts: Iterable[int]) -> list[str]:
    """The text, cut at these places."""
    places = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    return [text[start:end] for start, end in pairwise(places)]


def text_in(deltas: Iterable[Delta]) -> str:
    """The answer, as far as these tell it."""
    return "".join(delta.text for delta in deltas if isinstance(delta, Said))
