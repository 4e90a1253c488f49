"""How many units a second come to a queue, by what is found each time somebody looks.

A mean over the time between looks: units that came, by the seconds in which they came. It must not
know who looks, or why.
"""

from __future__ import annotations

import math

#: Seconds between looks after which an earlier look counts a third: some thousand units of a busy
#: model, some twenty of a rare one.
MEMORY_S = 0.3
#: Looks closer together tell nothing: what another worker takes is told in two messages.
LEAST_S = 0.005


class Inflow:
    """The rate of one queue, in units a second; 0 until it was looked at twice."""

    __slots__ = ("_seconds", "_units", "rate")

    def __init__(self) -> None:
        self._units = 0.0
        self._seconds = 0.0
        self.rate = 0.0

    def saw(self, units: int, seconds: float) -> None:
        """So many units came in the `seconds` since the look before."""
        if not LEAST_S <= seconds < math.inf:
            return
        kept = math.exp(-seconds / MEMORY_S)
        self._units = self._units * kept + max(0, units)
        self._seconds = self._seconds * kept + seconds
        self.rate = self._units / self._seconds
