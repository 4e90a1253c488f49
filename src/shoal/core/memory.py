"""What one lane's models hold, against one budget that all its runtime kinds share.

Bytes are those a runtime measured after loading (tensors and an activation reserve); before the
first load they are an estimate. Whoever is to come is reserved first, so that the sum of all
entries, which is what the budget bounds, is never surprised by a load. Knows no instruction.
"""

from __future__ import annotations

import sys
from math import exp2

import msgspec

#: Share of the newest load in the running mean of load seconds: files may be cached by then.
LOAD_SHARE = 0.3
#: What a model of which nothing is known is taken for: MiniLM holds 91 MB, BERT base 440 MB ...
UNKNOWN_BYTES = 256 << 20
#: ... but at most this share of a budget, so that a small lane tries it at all.
UNKNOWN_SHARE = 0.25
#: Part of weights alone that is reserved for the activations of the largest batch, on top.
RESERVE = 0.25
#: A use counts half after this long. Else a model that was busy for a day would stay for as many
#: evictions as it had uses, whatever is wanted now.
HALF_LIFE_S = 600.0
#: Share of a device that its models may hold; the rest is for the driver and fragmentation.
DEVICE_SHARE = 0.9


class Footprint:
    """Bytes and load seconds of one copy of a model: measured here or elsewhere, or estimated."""

    def __init__(
        self,
        bytes_estimate: int,
        load_s_estimate: float,
        *,
        sure: bool = False,
        reserve_bytes: int = 0,
    ) -> None:
        self.bytes = bytes_estimate
        self.reserve_bytes = reserve_bytes
        self.load_s = load_s_estimate
        self.measured = False
        self.sure = sure  # measured, here, by a peer or for its card

    def loaded(self, bytes_: int, seconds: float) -> None:
        """A copy was loaded here: its bytes count as they are, its seconds as a running mean."""
        self.bytes = bytes_
        self.load_s = (
            self.load_s + LOAD_SHARE * (seconds - self.load_s) if self.measured else seconds
        )
        self.measured = self.sure = True

    def fetched(self, bytes_: int) -> None:
        """Its files are here: a better estimate."""
        if not self.sure and bytes_ > 0:
            self.bytes = bytes_

    def told(self, bytes_: int, load_s: float) -> None:
        """A peer measured it; our own measurement goes before."""
        if not self.measured and bytes_ > 0:
            self.bytes, self.load_s, self.sure = bytes_, load_s, True


class Copy(msgspec.Struct):
    """One model's entry in a lane: coming, resident or being let go.

    Attributes:
        since: when it became resident; infinity before.
        used_at: when a batch of it was last sent; at first, when it became resident.
        uses: units that ran, at `used_at`, older ones counting less. `clock`: that of its lane then.
    """

    bytes: int
    since: float = float("inf")
    used_at: float = 0.0
    uses: float = 1.0
    clock: float = 0.0

    def worth(self, load_s: float, now: float) -> float:
        """Seconds of loading that a byte of it saves, on the lane's clock (GreedyDual-Size-Frequency)."""
        return self.clock + self._uses(now) * load_s / max(1, self.bytes)

    def used(self, units: int, clock: float, now: float) -> None:
        self.uses, self.used_at, self.clock = self._uses(now) + units, now, clock

    def _uses(self, now: float) -> float:
        return self.uses * exp2(min(0.0, self.used_at - now) / HALF_LIFE_S)


class LaneMemory:
    """All entries of one lane.

    Attributes:
        budget: most bytes of all entries together; None: no limit.
        clock: worth of the last model that was evicted: what was not used since ages against it.
        beside: most bytes of others beside which a model is loaded, that was out of memory before.
        most: the most bytes of all entries together so far.
    """

    def __init__(self, budget: int | None = None) -> None:
        self.budget = budget
        self.clock = 0.0
        self.copies: dict[str, Copy] = {}
        self.beside: dict[str, int] = {}
        self.most = 0

    @property
    def used(self) -> int:
        return sum(copy.bytes for copy in self.copies.values())

    @property
    def free(self) -> int:
        """Bytes left; below 0 while something turned out larger than was thought."""
        return sys.maxsize if self.budget is None else self.budget - self.used

    def excess(self, model: str) -> int:
        """Bytes that are in the way of a model that was out of memory; at most 0: none."""
        return self.used - self.beside.get(model, self.used)

    def needs(self, footprint: Footprint) -> int:
        """What to reserve for a model before it is loaded."""
        if footprint.sure:
            return footprint.bytes
        budget = sys.maxsize if self.budget is None else self.budget
        if footprint.bytes > 0:
            reserve = max(footprint.reserve_bytes, int(footprint.bytes * RESERVE))
            return max(footprint.bytes, min(budget, footprint.bytes + reserve))
        return min(UNKNOWN_BYTES, int(budget * UNKNOWN_SHARE))

    def reserve(self, model: str, bytes_: int) -> None:
        """It will be loaded: nobody else may have these bytes."""
        self._enter(model, Copy(bytes_, clock=self.clock))

    def loaded(self, model: str, bytes_: int, now: float) -> None:
        """It is resident and holds this much."""
        self.beside.pop(model, None)
        self._enter(model, Copy(bytes_, since=now, used_at=now, clock=self.clock))

    def _enter(self, model: str, copy: Copy) -> None:
        self.copies[model] = copy
        self.most = max(self.most, self.used)

    def used_by(self, model: str, units: int, now: float) -> None:
        """A batch with items of that many units was sent to it."""
        copy = self.copies.get(model)
        if copy is not None:
            copy.used(units, self.clock, now)

    def release(self, model: str) -> None:
        """It is gone, or will not come."""
        self.copies.pop(model, None)
