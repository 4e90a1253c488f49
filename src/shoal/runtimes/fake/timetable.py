"""Seconds of a batch by its tokens, read off points that were measured.

Straight lines between the points; beyond the last one the last line goes on, and below the first
one its seconds hold, since no batch is cheaper than the smallest.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

#: (tokens, seconds), ascending in tokens.
Point = tuple[int, float]


def seconds_of(table: Sequence[Point], tokens: int) -> float:
    """What a batch of so many tokens takes; nothing without a table."""
    if not table:
        return 0.0
    if len(table) == 1 or tokens <= table[0][0]:
        return table[0][1]
    upper = min(bisect_left(table, tokens, key=lambda point: point[0]), len(table) - 1)
    (left, left_s), (right, right_s) = table[upper - 1], table[upper]
    return left_s + (right_s - left_s) * (tokens - left) / (right - left)


def fault(table: Sequence[Point]) -> str | None:
    """Why a table is none; None if it is one."""
    tokens = [point[0] for point in table]
    if any(left >= right for left, right in pairwise(tokens)):
        return "tokens of the table must ascend"
    if any(seconds < 0 for _, seconds in table):
        return "seconds of the table must not be negative"
    return None
