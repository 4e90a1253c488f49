"""One lane of a worker as it was configured: what it runs on, and which runtimes may run there."""

from __future__ import annotations

import msgspec

from shoal.catalog.card import Card, Profile
from shoal.catalog.choice import chosen
from shoal.runtimes.packages import missing


class LaneSpec(msgspec.Struct, frozen=True):
    """One device, the threads its runtimes may use, and its kinds, as profiles are named, best first.

    `only`: the first kind's profile was asked for, and no other takes its place.
    """

    id: str
    device: str
    threads: int
    kinds: tuple[str, ...] = ()
    only: bool = False

    def profile(self, card: Card) -> Profile:
        """What a model runs with here; it may lack packages, if whatever suits does."""
        return chosen(card, self.kinds, missing, only=self.only).profile
