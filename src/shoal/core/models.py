"""One model as a worker's core sees it: its limits, its cost, its shelf, its pulls."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec.structs import replace

from shoal.core.batcher import Budget, Shelf, room_s
from shoal.core.cost import TERMS, CostModel, Work
from shoal.core.memory import Footprint
from shoal.core.sources import Source
from shoal.values import Features, TrafficClass

#: Share of the newest unit in the running mean of seconds a unit. Lengths of texts are lognormal: with a
#: share of 0.1 the mean itself was off by a sixth, and with it how many units fill a batch.
UNIT_SHARE = 0.03
#: The same of the newest batch.
BATCH_SHARE = 0.1


class ModelSpec(msgspec.Struct, frozen=True):
    """What the card and its profile say, as far as scheduling is concerned.

    Attributes:
        bytes_estimate: what one copy will hold, until it is measured; 0: nobody knows.
        reserve_bytes: what comes on top of an estimate at least, for activations.
        load_s_estimate: what loading takes, until it is measured.
        min_replicas: copies that the pool keeps even without demand.
        fetched: its files are here when the worker starts.
        work: decides what its batches' cost depends on; `cost_seed` is the base and a rate for each
            of those `core.cost.TERMS`.
        sequences: that a lane generates at once (`core.seats`); 0: it runs batches.
        bytes_sure: `bytes_estimate` was measured elsewhere.
    """

    name: str
    kind: str
    max_tokens: int
    budget: Budget
    cost_seed: tuple[float, ...]
    bytes_estimate: int = 0
    load_s_estimate: float = 1.0
    min_replicas: int = 0
    fetched: bool = True
    work: Work = "text"
    bytes_sure: bool = False
    reserve_bytes: int = 0
    sequences: int = 0


class ModelState:
    """Everything the core knows of one model."""

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec
        self.footprint = Footprint(
            spec.bytes_estimate,
            spec.load_s_estimate,
            sure=spec.bytes_sure,
            reserve_bytes=spec.reserve_bytes,
        )
        self.cost = CostModel(*spec.cost_seed, terms=TERMS[spec.work])
        self.shelf = Shelf()
        self.work = Source(spec.name, "work")
        self.bulk = Source(spec.name, "bulk")
        self.state: Literal["absent", "loading", "resident", "failed"] = "absent"
        self.reason: str | None = None
        self.unserved = False  # it failed since its runtime's packages are not installed here
        self.failed_until = 0.0
        self.failures = 0  # loads that failed here in a row, not for want of room
        self.load_crashes = 0
        self.coming: dict[TrafficClass, int] = {"work": 0, "bulk": 0}  # units being prepared
        self.fetching = 0  # units whose payloads are to be fetched before they can be prepared
        self.token_cap = spec.budget.tokens
        self.served_at = 0.0
        self.waiting: dict[TrafficClass, float] = {"work": 0.0, "bulk": 0.0}
        self.ran_s = 0.0  # beyond a batch's fixed cost: the running mean of its batches
        self._unit_s: float | None = None

    @property
    def budget(self) -> Budget:
        """The profile's bounds, less what an out-of-memory taught."""
        budget = self.spec.budget
        return Budget(budget.seconds, min(budget.tokens, self.token_cap), budget.items)

    @property
    def unit_s(self) -> float:
        """Predicted seconds of a unit not seen yet: the mean of the latest, of texts as if none had been
        bounded: what comes next may be longer."""
        return self._unit_s or self.cost.item_s(self.spec.max_tokens // 4)

    def unit_seen(self, seconds: float) -> None:
        self._unit_s = (
            seconds
            if self._unit_s is None
            else self._unit_s + UNIT_SHARE * (seconds - self._unit_s)
        )

    def ran(self, predicted_s: float) -> None:
        """A batch that was predicted to take so long came back."""
        self.ran_s += BATCH_SHARE * (max(0.0, predicted_s - self.cost.base_s) - self.ran_s)

    def items_s(self, features: Features) -> float:
        """Predicted seconds these items add to batches, without the batches' fixed cost."""
        return max(1e-6, self.cost.batch_s(features) - self.cost.base_s)

    def unbounded_s(self, features: Features) -> float:
        """The same, were each text to become as long as is expected."""
        return self.items_s(replace(features, new_tokens=0))

    @property
    def batch_s(self) -> float:
        """Predicted seconds of all items of a full batch, without its fixed cost.

        One unit at least, but no more than the budget, as a unit may be several batches. Of a model
        that generates: of as many sequences as there are places on a lane.
        """
        if self.spec.sequences:
            return self.spec.sequences * self.unit_s
        budget_s = self.spec.budget.seconds
        return max(min(self.unit_s, budget_s), room_s(budget_s, self.cost.base_s))

    @property
    def waiting_s(self) -> float:
        """Predicted seconds that wait here and were not sent to a lane."""
        return self.waiting["work"] + self.waiting["bulk"]

    @property
    def preparing(self) -> int:
        """Units that are being prepared; not those that are fetched first."""
        return self.coming["work"] + self.coming["bulk"]

    @property
    def occupied(self) -> bool:
        """Whether it has work here that did not go to a lane, or asked for some."""
        asked = self.work.batch is not None or self.bulk.batch is not None
        return asked or self.preparing + self.fetching > 0 or len(self.shelf) > 0

    def gathering(self, klass: TrafficClass) -> bool:
        """Whether more items for the next batch are on their way, and there is room for them."""
        source = self.work if klass == "work" else self.bulk
        coming = source.batch is not None or self.coming[klass] > 0
        return coming and self.waiting[klass] < self.batch_s

    def hold(self, klass: TrafficClass, seconds: float) -> None:
        """This much predicted work waits here now."""
        self.waiting[klass] += seconds

    def unhold(self, klass: TrafficClass, seconds: float) -> None:
        """This much of it went to a lane or elsewhere. Rounding errors do not add up below 1 µs."""
        left_s = self.waiting[klass] - seconds
        self.waiting[klass] = 0.0 if left_s < 1e-6 else left_s

    def shrink(self, tokens: int) -> None:
        """The device ran out of memory on a batch of `tokens`."""
        self.token_cap = max(1, min(self.token_cap, tokens) // 2)

    def grow(self) -> None:
        """A batch fitted; slowly try larger ones again."""
        self.token_cap = min(self.spec.budget.tokens, self.token_cap + self.token_cap // 50 + 1)
