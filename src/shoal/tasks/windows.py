"""A long text in windows that overlap, and one row a token of what they say. Pure."""

from __future__ import annotations

from itertools import pairwise
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
    parts = [
        said[before + own.start - span.start : before + own.stop - span.start]
        for said, span, own in zip(rows, spans, nearest(spans), strict=True)
    ]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def nearest(spans: list[range]) -> list[range]:
    """Of each window, what lies nearer to its middle than to that of another."""
    between = [(left.stop + right.start) // 2 for left, right in pairwise(spans)]
    starts, stops = [spans[0].start, *between], [*between, spans[-1].stop]
    return [range(start, stop) for start, stop in zip(starts, stops, strict=True)]


def word_windows(ends: NDArray[np.int64], room: int, most_words: int) -> list[range]:
    """Windows of whole words, at most `room` tokens and `most_words` words each; `MOST` of them.

    ends: [words], the tokens up to and with each word. A word that is longer than the room stands
    alone.
    """
    count, overlap = len(ends), overlap_of(room)
    before = np.concatenate([[0], ends])
    found: list[range] = []
    start, stop = 0, 0
    while stop < count and len(found) < MOST:
        fits = int(np.searchsorted(ends, before[start] + room, side="right"))
        stop = min(max(fits, start + 1), start + most_words, count)
        found.append(range(start, stop))
        if stop < count:
            # What both share leaves room for the next word.
            shared = max(before[stop] - overlap, before[stop + 1] - room)
            start = max(int(np.searchsorted(before, shared)), stop - most_words // 4)
            start = min(start, stop)
    return found or [range(0)]
