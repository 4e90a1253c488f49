"""A long text in windows that overlap, and one row a token of what they say. Pure."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Tokens that two windows share: enough that each token has 32 on both sides, more than an entity
#: and the words that tell what it is.
OVERLAP = 64
#: Windows of one item. With 512 tokens each that is a chapter; a book would hold a lane for minutes.
MOST = 32


def overlap_of(room: int) -> int:
    """Tokens that windows of so many share."""
    return min(OVERLAP, room // 4)


def most_tokens(room: int) -> int:
    """The tokens that all windows of an item hold together."""
    overlap = overlap_of(room)
    return MOST * (room - overlap) + overlap


def windows(count: int, room: int) -> list[range]:
    """Where the windows of so many tokens lie, each at most `room` long; one where they fit."""
    if count <= room:
        return [range(count)]
    overlap = overlap_of(room)
    starts = range(0, count - overlap, room - overlap)
    return [range(start, min(start + room, count)) for start in starts]


def stitched(rows: list[NDArray[Any]], spans: list[range], before: int) -> NDArray[Any]:
    """[tokens, ...] of the rows of windows, of which each has `before` special ones first.

    Each token has the row of the window in whose middle it lies nearer.
    """
    parts = []
    for number, (said, span) in enumerate(zip(rows, spans, strict=True)):
        start, stop = span.start, span.stop
        if number > 0:
            start = _middle(spans[number - 1], span)
        if number < len(spans) - 1:
            stop = _middle(span, spans[number + 1])
        parts.append(said[before + start - span.start : before + stop - span.start])
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _middle(span: range, following: range) -> int:
    return (following.start + span.stop) // 2
