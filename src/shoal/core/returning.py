"""Which units a worker gives back: those that it would keep waiting while another could take them.

It decides only; it must not know of pulls. A unit that comes unasked while all lanes are busy goes back unless one
is free soon. What is on the shelf goes back, the latest first, when it turns out to be far more
than was predicted, or the lanes far slower. Only whole units go, only to where the model is loaded,
and none that has been handed round before: so whatever happens, each unit stays somewhere.
"""

from __future__ import annotations

from collections.abc import Callable

from shoal.core.cost import TINY_S
from shoal.core.delivery import Units
from shoal.core.events import UnitHead
from shoal.core.lanes import Lane
from shoal.core.models import ModelState
from shoal.core.seats import Seats

#: A unit that was delivered this often stays where it is: with four of five workers busy, seven
#: tries leave one of five units waiting, and each costs it about a millisecond.
MAX_DELIVERED = 8
#: A unit stays where a lane is free within this time: giving it back takes about a millisecond, and the
#: next worker may be busy, too. 50 models at a quarter of round robin's knee: 99th percentile 12 ms with
#: 4 ms, 9 with 2 or 1 (`shoal sim`).
SOON_S = 0.002
#: A shelf this many times its credit (one batch a lane) is too full ...
FULL = 2.0
#: ... and is emptied down to this.
ENOUGH = 1.0
#: Most units that one event gives back: bounded work, and the next event goes on.
MOST_RETURNED = 64
#: A batch this many times slower than predicted says that what waits behind it will be as late.
SLOW = 2.0
#: Given back without delay a unit does not hold one of the consumer's places for pending acks.
AT_ONCE_S = 0.0

#: How many lanes of other workers have this model loaded.
Elsewhere = Callable[[str], int]


class Returning:
    """What goes back to the queue."""

    def __init__(
        self,
        lanes: dict[str, Lane],
        models: dict[str, ModelState],
        units: Units,
        elsewhere: Elsewhere,
        seats: Seats,
    ) -> None:
        self._lanes = list(lanes.values())
        self._models = models
        self._units = units
        self._elsewhere = elsewhere
        self._seats = seats

    def unasked(self, head: UnitHead, now: float) -> bool:
        """Whether a unit that came over a standing pull goes back: no lane is free for it soon, or, of
        a sequence, no place, though it is on its way here itself."""
        model = self._models[head.model]
        if model.spec.sequences:
            return self._may_go(head) and self._seats.room(model, head.klass) < 0
        return self._may_go(head) and self._starts_in(head, now) > SOON_S

    def _may_go(self, head: UnitHead) -> bool:
        return head.delivered < MAX_DELIVERED and self._elsewhere(head.model) > 0

    def _hosts(self, model: str) -> list[Lane]:
        return [lane for lane in self._lanes if lane.serves(model)]

    def _starts_in(self, head: UnitHead, now: float) -> float:
        """Seconds until this unit, which is held already, can be in a batch."""
        model, hosts = self._models[head.model], self._hosts(head.model)
        if not hosts:
            return 0.0  # it is being loaded, and its units wait here for that
        ahead_s = sum(model.waiting_s for model in self._waiting())
        if model.waiting_s <= model.batch_s:
            ahead_s -= model.waiting_s  # they run together
        return min(lane.free_in(now) for lane in hosts) + ahead_s / len(hosts)

    def excess(self, name: str, slower: float = 1.0) -> list[UnitHead]:
        """What of this model is too much, if all takes `slower` times the predicted."""
        hosts = len(self._hosts(name))
        if not hosts or not self._elsewhere(name):
            return []
        if self._models[name].spec.sequences:
            return []  # of sequences no more are asked for than there are places
        batches = slower * sum(map(self._batches, self._waiting())) / hosts
        if batches <= FULL:
            return []
        part = slower / self._models[name].batch_s / hosts
        heads: list[UnitHead] = []
        for unit in reversed(self._units.of_model(name)):
            held = self._units.get(unit)
            if batches <= ENOUGH + TINY_S or len(heads) >= MOST_RETURNED:
                break
            if held is not None and not held.started and self._may_go(held.head):
                batches -= held.waiting_s * part
                heads.append(held.head)
        return heads

    def _waiting(self) -> list[ModelState]:
        """Models that run batches, of which something is here."""
        models = (self._models[name] for name in self._units.models())
        return [model for model in models if not model.spec.sequences]

    @staticmethod
    def _batches(model: ModelState) -> float:
        return model.waiting_s / model.batch_s
