"""Finds the knee: the highest rate at which a goal is still met. Pure: whoever calls it measures."""

from __future__ import annotations

import math
from collections.abc import Callable

#: A search ends when its bracket is this narrow, as a ratio: runs of seconds tell no more.
RESOLUTION = 1.1
#: Factor between tries until the knee is between two of them.
STRIDE = 1.5
#: Most tries of one search.
MOST_TRIES = 12


def knee(
    meets: Callable[[float], bool],
    first: float,
    *,
    stride: float = STRIDE,
    tries: int = MOST_TRIES,
) -> float:
    """The highest rate seen to meet the goal; 0 if none of the tries did.

    From `first` upwards or downwards by `stride`, then by halving the bracket on a log scale.
    `meets(rate)` measures; it may be wrong now and then, which costs precision and no more.
    """
    good, bad = 0.0, math.inf
    rate = first
    for _ in range(tries):
        if meets(rate):
            good = rate
        else:
            bad = rate
        if good and bad / good <= RESOLUTION:
            break
        if not good:
            rate = bad / stride
        elif bad == math.inf:
            rate = good * stride
        else:
            rate = math.sqrt(good * bad)
    return good
