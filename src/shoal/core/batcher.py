"""Which items run next: the shelf of one model and the batches formed from it.

Work-conserving: whatever is there when a lane gets free forms a batch, up to the budget, in the
order of `core.fairness`. Bulk items fill what interactive ones leave of a part of the budget, so that
an interactive one that comes next waits little. Batches that came back undone are retried in
smaller pieces, before anything else. Units that may have taken a runtime down are kept apart: none
of them ever shares a batch.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

import msgspec

from shoal.core.cost import CostModel
from shoal.core.events import Item, UnitHead
from shoal.core.fairness import FairQueue, Place, sharers
from shoal.core.timers import Timers
from shoal.core.urgency import due_of, rank_of
from shoal.values import TrafficClass

#: Part of a batch's seconds that bulk items may fill it up to: an interactive unit that just missed
#: it waits for half a batch at most, and half a batch still uses a device well.
BULK_SHARE = 0.5


def room_s(budget_s: float, base_s: float) -> float:
    """Seconds that a batch's items may take: what its fixed cost leaves of the budget.

    At least as much as that cost: a device that became so slow that the budget cannot be kept would
    else run one item at a time, and collapse.
    """
    return max(budget_s - base_s, base_s)


class Budget(msgspec.Struct, frozen=True):
    """Bounds of one batch: predicted seconds, tokens (memory), items."""

    seconds: float
    tokens: int
    items: int


class _Waiting(msgspec.Struct):
    """A unit with items in turns."""

    head: UnitHead
    place: Place
    items: int


class _Suspect(msgspec.Struct):
    """What is left of a unit that may have taken a runtime down."""

    items: deque[Item]
    one_by_one: bool


class Shelf:
    """Prepared items of one model that wait for a lane."""

    def __init__(self) -> None:
        self._queues: dict[TrafficClass, FairQueue[Item]] = {}  # those with items
        self._units: dict[str, _Waiting] = {}
        self._due: dict[TrafficClass, Timers] = {"work": Timers(), "bulk": Timers()}
        self._retries: deque[list[Item]] = deque()
        self._suspects: dict[str, _Suspect] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __bool__(self) -> bool:
        """Whether anything but suspects waits."""
        return bool(self._units or self._retries)

    @property
    def suspects(self) -> bool:
        """Whether units wait that must run alone."""
        return bool(self._suspects)

    @property
    def interactive(self) -> bool:
        """Whether anything but bulk and suspects waits."""
        return "work" in self._queues or bool(self._retries)

    @property
    def next_class(self) -> TrafficClass:
        """What the next batch is formed for; bulk only if nothing else waits."""
        return "work" if self.interactive else "bulk"

    @property
    def due(self) -> float:
        """When the most urgent of that class should have begun; what is retried is overdue."""
        first = None if self._retries else self._due[self.next_class].first()
        return -math.inf if first is None else first

    def add(self, head: UnitHead, items: list[Item], now: float) -> None:
        """Let a unit's items wait for their turn."""
        place = Place(sharers(head.tenant), rank_of(head, now), head.request, due_of(head))
        self._units[head.id] = _Waiting(head, place, len(items))
        self._count += len(items)
        self._due[head.klass].set(head.id, place.due)
        queue = self._queues.get(head.klass)
        if queue is None:
            queue = self._queues[head.klass] = FairQueue()
        queue.add(place, items)

    def retry(self, batch: list[Item]) -> None:
        """These items run next, as a batch of their own."""
        if batch:
            self._retries.append(batch)
            self._count += len(batch)

    def suspect(self, unit: str, batch: list[Item], *, one_by_one: bool) -> None:
        """These items, and what else of their unit is here, run apart from all others."""
        items = deque([*batch, *self.remove(unit)])
        self._suspects[unit] = _Suspect(items, one_by_one)
        self._count += len(items)

    def remove(self, unit: str, unwanted: Callable[[Item], bool] = lambda item: True) -> list[Item]:
        """Take a unit's items off the shelf, or those `unwanted`, wherever they wait."""
        removed: list[Item] = []

        def goes(item: Item) -> bool:
            if item.unit != unit or not unwanted(item):
                return False
            removed.append(item)
            return True

        suspect = self._suspects.get(unit)
        if suspect is not None:
            suspect.items = deque(item for item in suspect.items if not goes(item))
            if not suspect.items:
                del self._suspects[unit]
        retries = [[item for item in batch if not goes(item)] for batch in self._retries]
        self._retries = deque(batch for batch in retries if batch)
        waiting = self._units.get(unit)
        if waiting is not None:
            queue = self._queues[waiting.head.klass]
            queued = queue.remove(waiting.place, lambda item: item.unit == unit and unwanted(item))
            removed += queued
            self._took(queued)
            if not queue:
                del self._queues[waiting.head.klass]
        self._count -= len(removed)
        return removed

    def take(self, budget: Budget, cost: CostModel) -> list[Item]:
        """Form the next batch; an item too large for the budget runs alone. Empty if none wait."""
        if self._retries:
            batch = self._retries.popleft()
        else:
            left = _Left(budget, cost)
            batch = self._fill("work", left)
            if "work" not in self._queues:
                left.seconds -= room_s(budget.seconds, cost.base_s) * (1.0 - BULK_SHARE)
                batch += self._fill("bulk", left)
            self._took(batch)
        self._count -= len(batch)
        return batch

    def _fill(self, klass: TrafficClass, left: _Left) -> list[Item]:
        """Take whose turn it is until the batch is full or nothing waits."""
        queue = self._queues.get(klass)
        if queue is None:
            return []
        batch = queue.take(left.put)
        if not queue:
            del self._queues[klass]
        return batch

    def _took(self, batch: list[Item]) -> None:
        units = self._units
        for item in batch:
            waiting = units[item.unit]
            waiting.items -= 1
            if not waiting.items:
                del units[item.unit]
                self._due[waiting.head.klass].drop(item.unit)

    def take_suspect(self, budget: Budget, cost: CostModel) -> list[Item]:
        """The next suspect unit, or as much of it as the budget allows."""
        unit, suspect = next(iter(self._suspects.items()))
        items = suspect.items
        left = _Left(budget, cost)
        batch: list[Item] = []
        while items and not (batch and suspect.one_by_one) and left.put(items[0]) is not None:
            batch.append(items.popleft())
        if not items:
            del self._suspects[unit]
        self._count -= len(batch)
        return batch


class _Left:
    """What of a batch's budget is still free. `seconds`: of what it may take longer."""

    __slots__ = ("_budget", "_item_s", "_items", "_tokens", "seconds")

    def __init__(self, budget: Budget, cost: CostModel) -> None:
        self.seconds = room_s(budget.seconds, cost.base_s)
        self._budget = budget
        self._item_s = cost.item_s
        self._items = 0
        self._tokens = 0

    def put(self, item: Item) -> float | None:
        """Put an item into the batch, the first one in any case; its seconds, or None if it is full."""
        seconds, tokens, items = (
            self._item_s(item.tokens, item.new_tokens),
            self._tokens + item.tokens,
            self._items + 1,
        )
        most = self._budget
        if items > 1 and (seconds > self.seconds or tokens > most.tokens or items > most.items):
            return None
        self.seconds -= seconds
        self._items, self._tokens = items, tokens
        return seconds
