"""Which units had their answer, so that a second one is told from one that was never asked for."""

from __future__ import annotations

from collections import OrderedDict

#: Seconds for which a second answer is still told from one that was never asked for. Longer than
#: any worker goes on resending.
SETTLED_FOR_S = 300.0
#: Most settled units remembered; about 10 MB.
SETTLED_MOST = 50_000


class Settled:
    """Units that were answered or given up lately."""

    def __init__(self) -> None:
        # Not a dict: its first key is behind all the places of those deleted before.
        self._at: OrderedDict[str, float] = OrderedDict()

    def add(self, unit: str, now: float) -> None:
        """Remember this unit; forget the old ones."""
        at = self._at
        at[unit] = now
        while at:
            oldest = next(iter(at))
            if len(at) <= SETTLED_MOST and at[oldest] >= now - SETTLED_FOR_S:
                break
            at.popitem(last=False)

    def knows(self, unit: str, now: float) -> bool:
        """Whether it was settled, as far as is remembered."""
        return self._at.get(unit, -SETTLED_FOR_S + now) > now - SETTLED_FOR_S
