"""Which batch goes to which lane, and what follows when one comes back, done or not.

The next batch is sent just before the lane is free: of the model whose turn comes first,
bulk only where nothing else waits. Items are bound to a lane only then, so that all lanes share what
is here; lanes that are idle together split it. A batch that failed is halved until the item
at fault stands alone and fails alone. A batch that took its runtime down costs each of its units
a strike: after one a unit runs alone, after two its items do, and at three the item at fault is
dead-lettered. Such suspects wait until the work of others was served for as long as the runtime was
down: a unit that kills it again and again may halve what the lane does, not stop it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from shoal.core import events as ev
from shoal.core.batcher import Budget
from shoal.core.cost import TINY_S
from shoal.core.delivery import Units
from shoal.core.events import Instruction, Item
from shoal.core.lanes import Batch, Lane
from shoal.core.models import ModelState
from shoal.core.seats import Seats
from shoal.core.urgency import turn_of
from shoal.errors import (
    ComputeFailed,
    DeadLettered,
    ErrorInfo,
    InvalidRequest,
    TooManyTokens,
    Unavailable,
)
from shoal.values import features_of

#: Strikes after which an item that runs alone is dead-lettered; from then on each strike is one.
MAX_STRIKES = 3
#: Idle lanes split work into parts of at least so many times a batch's fixed cost: smaller ones
#: would cost more device time than they save.
LEAST_PART = 2.0
#: Items of one unit that may be dead-lettered one by one; with the next one all of it is.
MAX_DEAD_ITEMS = 3


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
            batch.alone = held is not None and held.strikes > 0
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
        predicted_s = model.cost.batch_s(features_of([item.tokens for item in items]))
        batch = Batch(self._next_batch, model.spec.name, model.spec.kind, items, predicted_s)
        self._next_batch += 1
        self._units.started(items)
        return batch

    @staticmethod
    def _run(lane: Lane, batch: Batch, model: ModelState, now: float) -> ev.Run:
        lane.runtimes[batch.kind].computes(now)
        model.served_at = now
        return ev.Run(lane.id, batch.id, batch.model, batch.items, batch.predicted_s)

    def finished(self, batch: Batch, event: ev.Finished, now: float) -> list[Instruction]:
        """A batch was computed."""
        model, units = self._models[batch.model], self._units
        features = features_of([item.tokens for item in batch.items])
        if model.spec.sequences:
            features = msgspec.structs.replace(features, new_tokens=event.new_tokens)
        if not batch.ending:
            model.cost.learn(features, event.seconds)
        model.grow()
        out: list[Instruction] = []
        for place, item in enumerate(batch.items):
            out += (units.failed if place in event.failed else units.done)(item, now)
        return out

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
        items, out = self._wanted(batch.items, now)
        if event.error.code == "out_of_memory":
            model.shrink(sum(item.tokens for item in batch.items))
        if len(items) > 1:
            half = len(items) // 2
            self._retry(model, items[:half])
            self._retry(model, items[half:])
            return out
        full = event.error.code == "out_of_memory" and bool(items)
        relief = relieve(self._lanes[event.lane], batch.model, now) if full else []
        if relief:
            self._retry(model, items)
            return out + relief
        error = _of_item(event.error, sequence=bool(model.spec.sequences))
        for item in items:
            out.append(ev.FailItem(item.unit, item.index, error))
            out += self._units.failed(item, now)
        return out

    def _retry(self, model: ModelState, items: list[Item]) -> None:
        model.shelf.retry(items)
        self._units.wait_again(items)

    def runtime_died(
        self, lane: Lane, kind: str, reason: str, now: float, *, guilty: bool
    ) -> list[Instruction]:
        """Put all batches of that runtime back; if `guilty`, strike the units of the one that ran, and
        of all sequences, as a pass is of all of them."""
        lost = [batch for batch in (*lane.batches, *lane.seats.values()) if batch.kind == kind]
        first = next((batch for batch in lane.batches if batch.kind == kind), None)
        out: list[Instruction] = []
        for batch in lost:
            seated = batch.id in lane.seats
            lane.finished(batch.id, now)
            items, over = self._wanted(batch.items, now)
            out += over
            if guilty and (seated or batch is first):  # the batches behind it had not started
                for unit, own in _by_unit(items).items():
                    out += self._strike(unit, own, reason, now)
                dead = {(i.unit, i.index) for i in out if isinstance(i, ev.FailItem)}
                items = [
                    i for i in items if self._units.wanted(i) and (i.unit, i.index) not in dead
                ]
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
        return [aside, ev.FailItem(unit, item.index, error), *self._units.failed(item, now)]

    def _retry_alone(self, model: ModelState, items: list[Item]) -> None:
        """Units with a strike run alone; the others together again."""
        together: list[Item] = []
        for unit, own in _by_unit(items).items():
            held = self._units.get(unit)
            if held is not None and held.strikes:
                model.shelf.suspect(unit, own, one_by_one=held.strikes > 1)
            else:
                together += own
        self._retry(model, together)

    def _wanted(self, items: list[Item], now: float) -> tuple[list[Item], list[Instruction]]:
        """Those of a batch that came back which an answer still needs, and what follows of the rest."""
        wanted = [item for item in items if self._units.wanted(item)]
        needless = [item for item in items if not self._units.wanted(item)]
        return wanted, [i for item in needless for i in self._units.done(item, now)]


def _turn(model: ModelState, in_use: int) -> float:
    shelf = model.shelf
    return turn_of(shelf.due, model.waiting[shelf.next_class], model.batch_s, in_use)


def _by_unit(items: list[Item]) -> dict[str, list[Item]]:
    units: dict[str, list[Item]] = {}
    for item in items:
        units.setdefault(item.unit, []).append(item)
    return units


def _ready(models: list[ModelState]) -> list[ModelState]:
    """Models that may form a batch: those with interactive items, if there are any.

    Bulk waits also for interactive items that are being prepared: they take a millisecond.
    """
    work = [model for model in models if model.shelf.interactive]
    if work or any(model.coming["work"] for model in models):
        return work
    return [model for model in models if model.shelf]


def _of_item(error: ErrorInfo, *, sequence: bool) -> ErrorInfo:
    """What a runtime said of an item alone. Of a `sequence` it has things against what the caller
    asked, such as a grammar that is none, or no room for it for now; a batch that makes no sense is the worker's fault."""
    for fault in (InvalidRequest, TooManyTokens, Unavailable):
        if sequence and error.code == fault.code:
            return fault(error.message).info
    return ComputeFailed(f"the model could not compute this item: {error.message}").info
