"""How fast a series grows, and how far that may be chance. Pure.

Resident sets are no independent samples: what was there a second ago is there now. So the series is
cut into blocks of equal time, and a line is laid through the blocks' means (least squares).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import msgspec

#: Blocks of a series: enough for a line's error to be told, few enough for each to be one's own.
BLOCKS = 12


class Slope(msgspec.Struct, frozen=True):
    """Units a second, and the standard error of that."""

    per_s: float
    error: float


def slope(times: Sequence[float], values: Sequence[float]) -> Slope:
    """The line through the means of `BLOCKS` blocks; not a number where there are too few samples."""
    points = blocks(times, values, BLOCKS)
    if len(points) < 3:
        return Slope(math.nan, math.nan)
    x, y = [at for at, _ in points], [mean for _, mean in points]
    line = statistics.linear_regression(x, y)
    middle = statistics.fmean(x)
    left = sum((b - line.slope * a - line.intercept) ** 2 for a, b in points)
    spread = sum((a - middle) ** 2 for a in x)
    return Slope(line.slope, math.sqrt(left / (len(points) - 2) / spread))


def blocks(
    times: Sequence[float], values: Sequence[float], count: int
) -> list[tuple[float, float]]:
    """(mean time, mean value) of each of so many stretches of equal time; empty ones are left out."""
    if not times:
        return []
    began, length = times[0], (times[-1] - times[0]) / count or 1.0
    parts: list[list[tuple[float, float]]] = [[] for _ in range(count)]
    for time, value in zip(times, values, strict=True):
        parts[min(count - 1, int((time - began) / length))].append((time, value))
    return [
        (statistics.fmean(t for t, _ in part), statistics.fmean(v for _, v in part))
        for part in parts
        if part
    ]
