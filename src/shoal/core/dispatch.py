"""Which batch goes to which lane, and what follows when one comes back, done or not.

The next batch is sent just before the lane is free. A batch that failed is halved until the item
at fault stands alone and fails alone. A batch that took its runtime down costs each of its units
a strike: after one a unit runs alone, at three it is dead-lettered.
"""

from __future__ import annotations

from shoal.core import events as ev
from shoal.core.delivery import Units
from shoal.core.events import Instruction, Item
from shoal.core.lanes import Batch, Lane
from shoal.core.models import ModelState
from shoal.errors import ComputeFailed, DeadLettered
from shoal.values import features_of

#: Strikes until a unit is dead-lettered.
MAX_STRIKES = 3


class Dispatch:
    """Batches of all lanes of a worker."""

    def __init__(
        self,
        lanes: dict[str, Lane],
        models: dict[str, ModelState],
        units: Units,
        margin_s: float,
    ) -> None:
        self._lanes = lanes
        self._models = models
        self._units = units
        self._margin_s = margin_s
        self._next_batch = 1

    def decide(self, now: float) -> list[Instruction]:
        """Fill every lane that is idle or about to be."""
        out: list[Instruction] = []
        for lane in self._lanes.values():
            while lane.can_take(now, self._margin_s) and (model := self._choose(lane)):
                items = model.shelf.take(model.budget, model.cost)
                out.append(self._start(lane, model, items, now))
        return out

    def _choose(self, lane: Lane) -> ModelState | None:
        """The resident model with work that was served longest ago."""
        ready = [self._models[name] for name in lane.resident if self._models[name].shelf]
        return min(ready, key=lambda model: model.served_at, default=None)

    def _start(self, lane: Lane, model: ModelState, items: list[Item], now: float) -> ev.Run:
        predicted_s = model.cost.batch_s(features_of([item.tokens for item in items]))
        batch = Batch(self._next_batch, model.spec.name, model.spec.kind, items, predicted_s)
        self._next_batch += 1
        self._units.started(items)
        lane.started(batch, now)
        model.served_at = now
        return ev.Run(lane.id, batch.id, batch.model, items, predicted_s)

    def finished(self, event: ev.Finished, now: float) -> list[Instruction]:
        batch = self._lanes[event.lane].finished(event.batch, now)
        if batch is None:
            return []
        model = self._models[batch.model]
        model.cost.learn(features_of([item.tokens for item in batch.items]), event.seconds)
        model.grow()
        return [i for item in batch.items for i in self._units.done(item, now)]

    def failed(self, event: ev.BatchFailed, now: float) -> list[Instruction]:
        batch = self._lanes[event.lane].finished(event.batch, now)
        if batch is None:
            return []
        model = self._models[batch.model]
        items = self._alive(batch.items)
        if event.error.code == "out_of_memory":
            model.shrink(sum(item.tokens for item in batch.items))
        if len(items) > 1:
            half = len(items) // 2
            model.shelf.retry(items[:half])
            model.shelf.retry(items[half:])
            return []
        out: list[Instruction] = []
        for item in items:
            error = ComputeFailed(f"the model could not compute this item: {event.error.message}")
            out.append(ev.FailItem(item.unit, item.index, error.info))
            out += self._units.done(item, now)
        return out

    def runtime_died(self, lane: Lane, kind: str, reason: str, now: float) -> list[Instruction]:
        """Strike the units of the batch that ran; put all batches of that runtime back."""
        lost = [batch for batch in lane.batches if batch.kind == kind]
        out: list[Instruction] = []
        for position, batch in enumerate(lost):
            lane.finished(batch.id, now)
            items = self._alive(batch.items)
            if position == 0:  # the ones behind it had not started
                out += self._strike(items, reason, now)
                items = self._alive(items)
            self._retry_alone(self._models[batch.model], items)
        return out

    def _strike(self, items: list[Item], reason: str, now: float) -> list[Instruction]:
        out: list[Instruction] = []
        for unit in dict.fromkeys(item.unit for item in items):
            held = self._units.get(unit)
            if held is None:
                continue
            held.strikes += 1
            if held.strikes >= MAX_STRIKES:
                message = f"computing this took its runtime down {held.strikes} times ({reason})"
                out += self._units.fail(unit, DeadLettered(message).info, now)
        return out

    def _retry_alone(self, model: ModelState, items: list[Item]) -> None:
        """Units with a strike run alone; the others together again."""
        alone: dict[str, list[Item]] = {}
        together: list[Item] = []
        for item in items:
            held = self._units.get(item.unit)
            if held is not None and held.strikes:
                alone.setdefault(item.unit, []).append(item)
            else:
                together.append(item)
        for batch in [together, *alone.values()]:
            model.shelf.retry(batch)

    def _alive(self, items: list[Item]) -> list[Item]:
        """Items whose unit still wants an answer."""
        return [i for i in items if (held := self._units.get(i.unit)) and not held.replied]
