"""What follows of a batch that failed or took its runtime down: the item at fault is found, and it alone fails.

A batch that failed is halved until that item stands alone. A batch that took its runtime down costs each
of its units a strike: after one a unit runs alone, after two its items do, and at three the item at fault
is dead-lettered. When suspects run is `dispatch`'s.
"""

from __future__ import annotations

from collections.abc import Callable

from shoal.core import events as ev
from shoal.core.delivery import Units
from shoal.core.events import Instruction, Item
from shoal.core.lanes import Lane
from shoal.core.models import ModelState
from shoal.errors import (
    ComputeFailed,
    DeadLettered,
    ErrorInfo,
    InvalidRequest,
    TooManyTokens,
    Unavailable,
)

#: Strikes after which an item that runs alone is dead-lettered; from then on each strike is one.
MAX_STRIKES = 3
#: Items of one unit that may be dead-lettered one by one; with the next one all of it is.
MAX_DEAD_ITEMS = 3


class Isolation:
    """Of all lanes of a worker."""

    def __init__(self, lanes: dict[str, Lane], models: dict[str, ModelState], units: Units) -> None:
        self._lanes = lanes
        self._models = models
        self._units = units

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


def _by_unit(items: list[Item]) -> dict[str, list[Item]]:
    units: dict[str, list[Item]] = {}
    for item in items:
        units.setdefault(item.unit, []).append(item)
    return units


def _of_item(error: ErrorInfo, *, sequence: bool) -> ErrorInfo:
    """What a runtime said of an item alone. Of a `sequence` it has things against what the caller
    asked, such as a grammar that is none, or no room for it for now; a batch that makes no sense is the worker's fault."""
    for fault in (InvalidRequest, TooManyTokens, Unavailable):
        if sequence and error.code == fault.code:
            return fault(error.message, param=error.param).info
    return ComputeFailed(f"the model could not compute this item: {error.message}").info
