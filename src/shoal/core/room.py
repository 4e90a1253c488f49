"""Making room on a lane: who of its models may be let go, when, and how.

Never a pinned model, nor one that runs or has units here, nor one whose going would leave the pool
with fewer copies than its card asks for. Which set goes is `eviction`'s choice; what room is needed
for is for `placement` to say.
"""

from __future__ import annotations

from math import inf

from shoal.core.demand import Demand
from shoal.core.events import Evict, Instruction
from shoal.core.eviction import Candidate, Policy, Standing, choose, price_s, redundant
from shoal.core.lanes import Lane
from shoal.core.memory import Copy
from shoal.core.models import ModelState
from shoal.core.pool import Pool


class Room:
    """What could be let go on each lane of a worker."""

    def __init__(
        self,
        lanes: dict[str, Lane],
        models: dict[str, ModelState],
        pinned: frozenset[str],
        policy: Policy,
    ) -> None:
        self.demand = Demand()
        self.pool = Pool()
        self.lanes = lanes
        self.models = models
        self.pinned = pinned
        self._policy: Policy = policy

    def forget_silent(self, now: float) -> list[str]:
        """Gateways and workers that were not heard of lately count no more; returns these workers."""
        self.demand.forget_silent(now)
        return self.pool.forget_silent(now)

    def copies(self, name: str) -> int:
        """Copies in the whole pool, here and on peers, those on their way included."""
        return self.pool.copies(name) + sum(lane.wants(name) for lane in self.lanes.values())

    def idle(self, lane: Lane, name: str) -> bool:
        """Whether the model has no work here that this lane would do."""
        if name not in lane.resident or lane.uses(name):
            return False
        model = self.models[name]
        elsewhere = any(o is not lane and o.serves(name) for o in self.lanes.values())
        return elsewhere or not model.occupied

    def pick(
        self, lane: Lane, need: int, other_load_s: float, most_s: float, now: float, but: set[str]
    ) -> list[str] | None:
        """The models to let go for `need` bytes, if each has a price of `most_s` at most.

        Who goes is chosen first: a cheap wait for the right ones is better than others at once.
        """
        candidates = [
            candidate
            for name in lane.resident - lane.leaving - self.pinned - but
            if self.spare(name)
            and (candidate := self._candidate(lane, name, other_load_s, now)).price_s < inf
        ]
        chosen = choose(candidates, need, self._policy)
        if chosen is None or any(candidate.price_s > most_s for candidate in chosen):
            return None
        return [candidate.model for candidate in chosen]

    def spare(self, name: str) -> bool:
        """Whether the pool may have one copy less."""
        return self.copies(name) > self.models[name].spec.min_replicas

    def _candidate(self, lane: Lane, name: str, other_load_s: float, now: float) -> Candidate:
        copy, standing = lane.memory.copies[name], self._standing(lane, name, now)
        worth = self._worth(lane, standing, copy, now)
        value = max(0.0, worth - lane.memory.clock) * copy.bytes
        price = price_s(standing, other_load_s)
        wanted = (standing.busy or standing.demand_s > 0) and not redundant(standing)
        return Candidate(name, copy.bytes, price, wanted, worth, value, copy.used_at)

    def _standing(self, lane: Lane, name: str, now: float) -> Standing:
        copy = lane.memory.copies[name]
        return Standing(
            load_s=self.models[name].footprint.load_s,
            demand_s=self.demand.seconds(name),
            resident_s=now - copy.since,
            idle_s=now - copy.used_at,
            copies=self.copies(name),
            busy=not self.idle(lane, name),
        )

    @staticmethod
    def _worth(lane: Lane, standing: Standing, copy: Copy, now: float) -> float:
        """Nothing above the lane's clock where other copies would do."""
        return lane.memory.clock if redundant(standing) else copy.worth(standing.load_s, now)

    def let_go(self, lane: Lane, name: str, reason: str, now: float) -> Instruction:
        """Evict an idle model; its bytes are free once the runtime confirms."""
        copy, standing = lane.memory.copies[name], self._standing(lane, name, now)
        lane.memory.clock = max(lane.memory.clock, self._worth(lane, standing, copy, now))
        lane.resident.discard(name)
        lane.leaving.discard(name)
        lane.evicting.add(name)
        model = self.models[name]
        if not any(other.wants(name) for other in self.lanes.values()):
            model.state = "absent"
        return Evict(lane.id, name, reason)

    def relieve(
        self, lane: Lane, need: int, now: float, keep: str, reason: str
    ) -> list[Instruction]:
        """Let go at once of what is idle until `need` bytes come free; [] if that is not enough.

        For an emergency, so no claim is asked for; what is in demand nowhere else stays.
        """
        candidates = [
            self._candidate(lane, name, 0.0, now)
            for name in lane.resident - self.pinned - {keep}
            if self.idle(lane, name) and self.spare(name) and self._dispensable(name)
        ]
        chosen = choose(candidates, need, self._policy) or []
        return [self.let_go(lane, candidate.model, reason, now) for candidate in chosen]

    def _dispensable(self, name: str) -> bool:
        """An open standing pull knows better than a pulse that its queue is empty."""
        unasked = self.models[name].work.standing is not None or self.demand.seconds(name) <= 0
        return unasked or self.copies(name) > 1
