"""What happened lately, bounded in time and number: requests called off, units that were answered."""

from __future__ import annotations

from collections import OrderedDict


class Recent:
    """Ids, each remembered for `keep_s` seconds, and no more than `most` of them."""

    def __init__(self, keep_s: float, most: int) -> None:
        self._keep_s = keep_s
        self._most = most
        # Not a dict: its first key is behind all the places of those deleted before.
        self._at: OrderedDict[str, float] = OrderedDict()

    def add(self, id_: str, now: float) -> None:
        """Remember this one; forget the old ones."""
        at = self._at
        at[id_] = now
        while at:
            oldest = next(iter(at))
            if len(at) <= self._most and at[oldest] >= now - self._keep_s:
                break
            at.popitem(last=False)

    def knows(self, id_: str, now: float) -> bool:
        """Whether it was added, as far as is remembered."""
        at = self._at.get(id_)
        return at is not None and at > now - self._keep_s
