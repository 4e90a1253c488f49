"""A running quantile of a stream of positive numbers, in one number of memory.

Each value moves the estimate up or down by a share of itself, in the proportion that balances at the
quantile (Ma, Muthukrishnan & Sandler, Frugal Streaming for Estimating Quantiles, 2013). Old values
fade, so that it follows a stream that changes.
"""

from __future__ import annotations

#: Share by which a value may move the estimate: a median that is off tenfold is right after about
#: fifty values, and then wavers by a few percent.
STEP = 0.1
#: Keeps an estimate that came down to nothing able to grow.
LEAST = 1e-4


class RunningQuantile:
    """`value`: about the `quantile` of the latest values."""

    def __init__(self, quantile: float, first: float) -> None:
        self._up = 1 + STEP * quantile
        self._down = 1 - STEP * (1 - quantile)
        self.value = first

    def add(self, x: float) -> None:
        """Take in one value; one that is no number counts as small."""
        self.value = max(LEAST, self.value * (self._up if x > self.value else self._down))
