"""What follows where memory does not suffice, whatever was planned.

A model turned out larger than it was thought, or a load or a batch was out of memory. No claim is asked
for what must go at once; what can wait does, and `placement` makes room for it as for any other.
"""

from __future__ import annotations

from shoal.core.events import Instruction, Loaded, LoadFailed
from shoal.core.lanes import Lane
from shoal.core.placement import Placement
from shoal.core.residency import Residency
from shoal.core.room import Room


class Shortage:
    """See the module."""

    def __init__(self, residency: Residency, placement: Placement, room: Room) -> None:
        self._residency = residency
        self._placement = placement
        self._room = room

    def loaded(self, event: Loaded, now: float) -> list[Instruction]:
        """A model is resident; if it is larger than was thought, others go, or it does."""
        lane, model = self._room.lanes[event.lane], self._room.models[event.model]
        if lane.loading != event.model:
            return []  # said by a process that died since: it is loaded again
        self._residency.loaded(lane, model, event, now)
        over = -lane.memory.free
        if over <= 0:
            return []
        reason = f"{event.model} holds more than was thought"
        out = self._room.relieve(lane, over, now, event.model, reason)
        if out:
            return out
        too_large = event.model in self._room.pinned or self._placement.too_large(model, lane)
        reason = f"{reason}, and there is no room for it"
        evict = self._room.let_go(lane, event.model, reason, now)
        if too_large:
            self._residency.refuse(model, self._placement.most(lane), now, lane)
        return [evict]

    def load_failed(self, event: LoadFailed) -> bool:
        """Whether a load that was out of memory is to wait until so much is gone as it needs.

        Then it is tried once more. Who goes, and when, is decided as for any other.
        """
        lane, model = self._room.lanes[event.lane], self._room.models[event.model]
        memory, stay = lane.memory, self._placement.staying(lane)
        again = memory.beside.pop(event.model, None) is not None
        if again or not event.out_of_memory or lane.loading != event.model:
            return False
        others = memory.used - memory.copies[event.model].bytes
        if others <= stay:
            return False
        memory.beside[event.model] = max(stay, others - memory.needs(model.footprint))
        self._residency.put_off(lane, model)
        return True

    def batch_failed(self, lane: Lane, model: str, now: float) -> list[Instruction]:
        """One item alone was out of memory: let something idle go, if there is any."""
        out = self._room.relieve(lane, 1, now, model, f"a batch of {model} was out of memory")
        lane.starved = bool(out)
        return out
