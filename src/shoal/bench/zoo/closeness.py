"""How close two answers to the same samples are. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


class Closeness(msgspec.Struct, frozen=True):
    """Of two answers.

    Attributes:
        worst, mean: cosines of rows.
        most: the largest difference of two numbers.
        same: of `rows`, those whose largest number stands in the same place; of texts, those that
            are equal.
    """

    worst: float
    mean: float
    most: float
    same: int
    rows: int


def closeness(ours: Sequence[Floats], theirs: Sequence[Floats]) -> Closeness:
    """Of rows [n, width] of each sample. Raises `ValueError` where there are others."""
    a, b = (np.concatenate(list(side)).astype(np.float64) for side in (ours, theirs))
    if a.shape != b.shape:
        raise ValueError(f"{list(a.shape)} numbers beside {list(b.shape)}")
    cosines = (a * b).sum(1) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1))
    same = int((a.argmax(1) == b.argmax(1)).sum())
    return Closeness(
        float(cosines.min()), float(cosines.mean()), float(abs(a - b).max()), same, len(a)
    )


def equality(ours: Sequence[Floats], theirs: Sequence[Floats]) -> Closeness:
    """Of token ids of each sample, [n, 1]."""
    equal = [np.array_equal(one, other) for one, other in zip(ours, theirs, strict=True)]
    share = sum(equal) / len(equal)
    return Closeness(float(all(equal)), share, 0.0, sum(equal), len(equal))
