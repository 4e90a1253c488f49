"""Which batch goes to which lane, and what follows when one comes back, done or not.

The next batch is sent just before the lane is free. A batch that failed is halved until the item
at fault stands alone and fails alone. A batch that took its runtime down costs each of its units
a strike: after one a unit runs alone, after two its items do, and at three the item at fault is
dead-lettered. Such suspects wait until the work of others was served for as long as the runtime was
down: a unit that kills it again and again may halve what the lane does, not stop it.
"""

from __future__ import annotations

from collections.abc import Callable

from shoal.core import events as ev
from shoal.core.delivery import Units
from shoal.core.events import Instruction, Item
from shoal.core.lanes import Batch, Lane
from shoal.core.models import ModelState
from shoal.errors import ComputeFailed, DeadLettered
from shoal.values import features_of

#: Strikes after which an item that runs alone is dead-lettered; from then on each strike is one.
MAX_STRIKES = 3
#: Items of one unit that may be dead-lettered one by one; with the next one all of it is.
MAX_DEAD_ITEMS = 3


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

    def decide(self, now: float, spared: Callable[[Lane], set[str]]) -> list[Instruction]:
        """Fill every lane that is idle or about to be, end runtimes that hang.

        `spared`: the runtime kinds of a lane that must be left alone.
        """
        out: list[Instruction] = []
        for lane in self._lanes.values():
            hung = lane.hung(now)
            if hung is not None:
                out.append(ev.KillRuntime(lane.id, hung))
            alone = spared(lane)
            models = [self._models[name] for name in lane.resident]
            models = [model for model in models if model.spec.kind not in alone]
            while lane.can_take(now, self._margin_s) and (next_ := _choose(lane, models, now)):
                model, items = next_
                out.append(self._start(lane, model, items, now))
        return out

    def _start(self, lane: Lane, model: ModelState, items: list[Item], now: float) -> ev.Run:
        predicted_s = model.cost.batch_s(features_of([item.tokens for item in items]))
        batch = Batch(self._next_batch, model.spec.name, model.spec.kind, items, predicted_s)
        self._next_batch += 1
        self._units.started(items)
        lane.started(batch, now)
        lane.runtimes[batch.kind].computes(now)
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

    def failed(
        self,
        event: ev.BatchFailed,
        now: float,
        relieve: Callable[[Lane, str, float], list[Instruction]],
    ) -> list[Instruction]:
        """Halve the batch; an item alone fails, unless memory was short and `relieve` finds some."""
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
        full = event.error.code == "out_of_memory" and bool(items)
        out = relieve(self._lanes[event.lane], batch.model, now) if full else []
        if out:
            model.shelf.retry(items)
            return out
        for item in items:
            error = ComputeFailed(f"the model could not compute this item: {event.error.message}")
            out.append(ev.FailItem(item.unit, item.index, error.info))
            out += self._units.done(item, now)
        return out

    def runtime_died(
        self, lane: Lane, kind: str, reason: str, now: float, *, guilty: bool
    ) -> list[Instruction]:
        """Put all batches of that runtime back; if `guilty`, strike the units of the one that ran."""
        lost = [batch for batch in lane.batches if batch.kind == kind]
        out: list[Instruction] = []
        for position, batch in enumerate(lost):
            lane.finished(batch.id, now)
            items = self._alive(batch.items)
            if guilty and position == 0:  # the ones behind it had not started
                for unit, own in _by_unit(items).items():
                    out += self._strike(unit, own, reason, now)
                dead = {(i.unit, i.index) for i in out if isinstance(i, ev.FailItem)}
                items = [i for i in self._alive(items) if (i.unit, i.index) not in dead]
            self._retry_alone(self._models[batch.model], items)
        return out

    def _strike(self, unit: str, items: list[Item], reason: str, now: float) -> list[Instruction]:
        """`items`: what of the unit was in the batch."""
        held = self._units.get(unit)
        if held is None:
            return []
        held.strikes += 1
        if held.strikes < MAX_STRIKES:
            return []
        message = f"computing this took its runtime down {held.strikes} times ({reason})"
        error = DeadLettered(message).info
        if len(items) > 1 or held.strikes >= MAX_STRIKES + MAX_DEAD_ITEMS:
            aside = ev.SetAside(unit, [], held.strikes, error)
            return [aside, *self._units.fail(unit, error, now)]
        (item,) = items
        aside = ev.SetAside(unit, [item.index], held.strikes, error)
        return [aside, ev.FailItem(unit, item.index, error), *self._units.done(item, now)]

    def _retry_alone(self, model: ModelState, items: list[Item]) -> None:
        """Units with a strike run alone; the others together again."""
        together: list[Item] = []
        for unit, own in _by_unit(items).items():
            held = self._units.get(unit)
            if held is not None and held.strikes:
                model.shelf.suspect(unit, own, one_by_one=held.strikes > 1)
            else:
                together += own
        model.shelf.retry(together)

    def _alive(self, items: list[Item]) -> list[Item]:
        """Items whose unit still wants an answer."""
        return [i for i in items if (held := self._units.get(i.unit)) and not held.replied]


def _by_unit(items: list[Item]) -> dict[str, list[Item]]:
    units: dict[str, list[Item]] = {}
    for item in items:
        units.setdefault(item.unit, []).append(item)
    return units


def _choose(
    lane: Lane, models: list[ModelState], now: float
) -> tuple[ModelState, list[Item]] | None:
    """A batch of the model with work that was served longest ago; suspects once their time came.

    While the lane is still busy, a batch whose other items are just coming waits for them.
    """
    ready = [m for m in models if m.shelf and not (lane.batches and m.gathering)]
    suspects = [
        model
        for model in models
        if model.shelf.suspects
        and (not ready or lane.runtimes[model.spec.kind].may_take_suspects(now))
    ]
    if suspects:
        model = min(suspects, key=lambda model: model.served_at)
        return model, model.shelf.take_suspect(model.budget, model.cost)
    if ready:
        model = min(ready, key=lambda model: model.served_at)
        return model, model.shelf.take(model.budget, model.cost)
    return None
