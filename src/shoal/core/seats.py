"""Places for sequences: models that generate have so many on each lane, and each sequence has one.

Such a model's runtime forms its own batches of what is under way (`design` calls that ``batching:
self``), so nothing is gathered here: a sequence begins as soon as there is a place for it, beside the
lane's batches, and no more are pulled than there are places. Bulk takes at most a part of them: a
sequence keeps its place for seconds, and an interactive one must not wait for that.
"""

from __future__ import annotations

from shoal.core.batcher import Budget
from shoal.core.delivery import Units
from shoal.core.events import End, Instruction, Item
from shoal.core.lanes import Lane
from shoal.core.models import ModelState
from shoal.values import TrafficClass

#: Part of a model's places that bulk may take, and one in any case.
BULK_SHARE = 0.5
#: One item, whatever it takes.
_ONE = Budget(float("inf"), 2**62, 1)


class Seats:
    """All places of a worker's models that generate."""

    def __init__(self, lanes: dict[str, Lane], models: dict[str, ModelState], units: Units) -> None:
        self._lanes = lanes
        self._models = [model for model in models.values() if model.spec.sequences]
        self._units = units

    def __bool__(self) -> bool:
        return bool(self._models)

    @property
    def models(self) -> list[ModelState]:
        """Those that generate and are served here now."""
        return [model for model in self._models if self._hosts(model)]

    def _hosts(self, model: ModelState) -> list[Lane]:
        return [lane for lane in self._lanes.values() if lane.serves(model.spec.name)]

    @staticmethod
    def taken(lane: Lane, model: ModelState) -> int:
        """Sequences of the model that are under way there."""
        return sum(batch.model == model.spec.name for batch in lane.seats.values())

    def free(self, model: ModelState) -> int:
        """Places that nothing sits on, on all lanes that serve the model."""
        return sum(model.spec.sequences - self.taken(lane, model) for lane in self._hosts(model))

    def room(self, model: ModelState, klass: TrafficClass) -> int:
        """Units more of this class for which there is a place, beside those that are on their way."""
        room = self.free(model) - len(model.shelf) - model.preparing - model.fetching
        room -= model.work.asked + model.bulk.asked + (model.bulk.standing is not None)
        if klass == "bulk":  # an open standing pull for others says that there are none
            coming = model.coming["bulk"] + model.bulk.asked + (model.bulk.standing is not None)
            return min(room, self._bulk_room(model) - coming)
        return room - (model.work.standing is not None)

    def _bulk_room(self, model: ModelState) -> int:
        """Sequences more of that class that may be under way."""
        hosts = self._hosts(model)
        most = max(1, int(BULK_SHARE * model.spec.sequences * len(hosts)))
        return most - sum(
            1
            for lane in hosts
            for batch in lane.seats.values()
            if batch.model == model.spec.name and self._is_bulk(batch.items[0])
        )

    def _is_bulk(self, item: Item) -> bool:
        held = self._units.get(item.unit)
        return held is not None and held.head.klass == "bulk"

    def next(self, lane: Lane, spared: set[str], now: float) -> tuple[ModelState, Item] | None:
        """Whose turn it is to begin on this lane: who was served longest ago; None if nobody can.

        What may have taken a runtime down runs alone, so it waits for the others to end, and they for it.
        """
        ready = [
            model
            for model in self._models
            if len(model.shelf)
            and model.spec.name in lane.resident
            and model.spec.kind not in spared
            and not lane.alone(model.spec.kind)
            and self.taken(lane, model) < model.spec.sequences
        ]
        waited_for: set[str] = set()
        for model in sorted(ready, key=lambda model: model.served_at):
            kind = model.spec.kind
            if kind in waited_for:
                continue
            if self._suspect_next(lane, model, now):
                if lane.loading is None and not any(b.kind == kind for b in lane.seats.values()):
                    return model, model.shelf.take_suspect(_ONE, model.cost)[0]
                waited_for.add(kind)  # else others would go on without end, and it would never run
            elif model.shelf and self._may_begin(model):
                return model, model.shelf.take(_ONE, model.cost)[0]
        return None

    @staticmethod
    def _suspect_next(lane: Lane, model: ModelState, now: float) -> bool:
        due = not model.shelf or lane.runtimes[model.spec.kind].may_take_suspects(now)
        return model.shelf.suspects and due

    def _may_begin(self, model: ModelState) -> bool:
        return model.shelf.next_class != "bulk" or self._bulk_room(model) > 0

    def unwanted(self) -> list[Instruction]:
        """End what nobody waits for any more."""
        out: list[Instruction] = []
        for lane in self._lanes.values():
            for batch in lane.seats.values():
                if not batch.ending and not self._units.wanted(batch.items[0]):
                    batch.ending = True
                    out.append(End(lane.id, batch.id))
        return out
