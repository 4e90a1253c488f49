"""Which batch goes to which lane, and what follows when one was computed.

The next batch is sent just before the lane is free: of the model whose turn comes first,
bulk only where nothing else waits. Items are bound to a lane only then, so that all lanes share what
is here; lanes that are idle together split it. What may have taken its runtime down waits until the
work of others was served for as long as that was down: a unit that kills it again and again may halve
what the lane does, not stop it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from shoal.core import events as ev
from shoal.core.batcher import Budget
from shoal.core.cost import TINY_S
from shoal.core.delivery import Units
from shoal.core.events import Instruction, Item, features_of_items
from shoal.core.lanes import Batch, Lane
from shoal.core.models import ModelState
from shoal.core.seats import Seats
from shoal.core.urgency import turn_of

#: Idle lanes split work into parts of at least so many times a batch's fixed cost: smaller ones
#: would cost more device time than they save.
LEAST_PART = 2.0


class Dispatch:
    """Batches of all lanes of a worker. `in_use`: how many models are asked for, now."""

    def __init__(
        self,
        lanes: dict[str, Lane],
        models: dict[str, ModelState],
        units: Units,
        margin_s: float,
        in_use: Callable[[float], int],
        seats: Seats,
    ) -> None:
        self._lanes = lanes
        self._models = models
        self._units = units
        self._margin_s = margin_s
        self._in_use = in_use
        self._seats = seats
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
            out += [ev.AskProcessor(lane.id, kind) for kind in lane.silent(now)]
        if self._seats:
            out += self._seats.unwanted()
            for lane in self._lanes.values():
                out += self._seat(lane, spared(lane), now)
        if not any(self._stocked()):
            return out
        # The one that is free first, or has been for longest, comes first.
        for lane in sorted(self._lanes.values(), key=lambda lane: lane.free_at):
            if lane.can_take(now, self._margin_s):
                out += self._feed(lane, spared(lane), now)
        return out

    def _seat(self, lane: Lane, spared: set[str], now: float) -> list[Instruction]:
        """Begin the sequences for which this lane has places."""
        out: list[Instruction] = []
        while not lane.starved and (next_ := self._seats.next(lane, spared, now)) is not None:
            model, item = next_
            held = self._units.get(item.unit)
            batch = self._batch(model, [item])
            if held is not None:
                batch.generates, batch.alone = held.head.generates, held.strikes > 0
            first = msgspec.structs.replace(features_of_items([item]), new_tokens=1)
            batch.silent_s = model.cost.batch_s(first)
            lane.seated(batch, now)
            out.append(self._run(lane, batch, model, now))
        return out

    def _stocked(self) -> Iterator[ModelState]:
        """Models that run batches, of which something waits on the shelf."""
        for name in self._units.models():
            model = self._models[name]
            if len(model.shelf) and not model.spec.sequences:
                yield model

    def _feed(self, lane: Lane, spared: set[str], now: float) -> list[Instruction]:
        out: list[Instruction] = []
        while lane.can_take(now, self._margin_s):
            models = [
                model
                for model in self._stocked()
                if model.spec.name in lane.resident and model.spec.kind not in spared
            ]
            next_ = self._choose(lane, models, now)
            if next_ is None:
                break
            out.append(self._start(lane, *next_, now))
        return out

    def _choose(
        self, lane: Lane, models: list[ModelState], now: float
    ) -> tuple[ModelState, list[Item]] | None:
        """A batch of the model whose turn comes first; suspects once their time came.

        While the lane is still busy, a batch whose other items are just coming waits for them.
        """
        ready = _ready(models)
        suspects = [
            model
            for model in models
            if model.shelf.suspects
            and not self._loading(lane, model.spec.kind)
            and (not ready or lane.runtimes[model.spec.kind].may_take_suspects(now))
        ]
        if suspects:
            model = min(suspects, key=lambda model: model.served_at)
            return model, model.shelf.take_suspect(model.budget, model.cost)
        if not ready:
            return None
        in_use = self._in_use(now)
        model = min(ready, key=lambda model: (_turn(model, in_use), model.served_at))
        if lane.batches and model.gathering(model.shelf.next_class):
            return None
        return model, model.shelf.take(self._part(lane, model), model.cost)

    def _loading(self, lane: Lane, kind: str) -> bool:
        """Whether the runtime loads: were it to die now, nobody could say of what."""
        return lane.loading is not None and self._models[lane.loading].spec.kind == kind

    def _part(self, lane: Lane, model: ModelState) -> Budget:
        """The budget of the next batch: a fair part, where several idle lanes could share the work."""
        budget, name = model.budget, model.spec.name
        idle = sum(not other.batches and name in other.resident for other in self._lanes.values())
        if lane.batches or idle < 2:
            return budget
        least_s = LEAST_PART * model.cost.base_s
        part_s = model.cost.base_s + max(least_s, model.waiting_s / idle) + TINY_S
        return Budget(min(budget.seconds, part_s), budget.tokens, budget.items)

    def _start(self, lane: Lane, model: ModelState, items: list[Item], now: float) -> ev.Run:
        batch = self._batch(model, items)
        lane.started(batch, now)
        return self._run(lane, batch, model, now)

    def _batch(self, model: ModelState, items: list[Item]) -> Batch:
        predicted_s = model.cost.batch_s(features_of_items(items))
        batch = Batch(self._next_batch, model.spec.name, model.spec.kind, items, predicted_s)
        self._next_batch += 1
        self._units.started(items)
        return batch

    @staticmethod
    def _run(lane: Lane, batch: Batch, model: ModelState, now: float) -> ev.Run:
        lane.runtimes[batch.kind].computes(now)
        model.served_at = now
        told = (batch.items, batch.predicted_s, batch.generates)
        return ev.Run(lane.id, batch.id, batch.model, *told)

    def finished(self, batch: Batch, event: ev.Finished, now: float) -> list[Instruction]:
        """A batch was computed."""
        model, units = self._models[batch.model], self._units
        features = features_of_items(batch.items)
        if model.spec.sequences:
            features = msgspec.structs.replace(features, new_tokens=event.new_tokens)
        # What a model that generates makes besides, such as vectors, is no short text.
        written = event.new_tokens > 0 or not model.spec.sequences
        if written and not batch.ending:
            model.cost.learn(features, event.seconds, cut=event.cut)
        model.grow()
        out: list[Instruction] = []
        for place, item in enumerate(batch.items):
            out += (units.failed if place in event.failed else units.done)(item, now)
        return out


def _turn(model: ModelState, in_use: int) -> float:
    shelf = model.shelf
    return turn_of(shelf.due, model.waiting[shelf.next_class], model.batch_s, in_use)


def _ready(models: list[ModelState]) -> list[ModelState]:
    """Models that may form a batch: those with interactive items, if there are any.

    Bulk waits also for interactive items that are being prepared: they take a millisecond.
    """
    work = [model for model in models if model.shelf.interactive]
    if work or any(model.coming["work"] for model in models):
        return work
    return [model for model in models if model.shelf]
