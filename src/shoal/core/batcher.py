"""Which items run next: the shelf of one model and the batches formed from it.

Work-conserving: whatever is there when a lane gets free forms a batch, up to the budget. Requests
take turns by deficit round robin (Shreedhar & Varghese, 1995) over predicted seconds, so that a
large request never makes a small one wait more than about one batch. Batches that came back
undone are retried in smaller pieces, before anything else. Units that may have taken a runtime
down are kept apart: none of them ever shares a batch.
"""

from __future__ import annotations

from collections import deque

import msgspec

from shoal.core.cost import CostModel
from shoal.core.events import Item


class Budget(msgspec.Struct, frozen=True):
    """Bounds of one batch: predicted seconds, tokens (memory), items."""

    seconds: float
    tokens: int
    items: int


class _Turn:
    """One request's items on the shelf, and what it may still take this turn."""

    __slots__ = ("begun", "deficit", "items")

    def __init__(self) -> None:
        self.items: deque[Item] = deque()
        self.deficit = 0.0
        self.begun = False  # a turn that a full batch interrupted goes on in the next one


class _Suspect(msgspec.Struct):
    """What is left of a unit that may have taken a runtime down."""

    items: deque[Item]
    one_by_one: bool


class Shelf:
    """Prepared items of one model that wait for a lane."""

    def __init__(self) -> None:
        self._turns: dict[str, _Turn] = {}
        self._order: deque[str] = deque()
        self._retries: deque[list[Item]] = deque()
        self._suspects: dict[str, _Suspect] = {}

    def __len__(self) -> int:
        waiting = sum(len(turn.items) for turn in self._turns.values())
        apart = sum(len(suspect.items) for suspect in self._suspects.values())
        return waiting + apart + sum(len(batch) for batch in self._retries)

    def __bool__(self) -> bool:
        """Whether anything but suspects waits."""
        return bool(self._order or self._retries)

    @property
    def suspects(self) -> bool:
        """Whether units wait that must run alone."""
        return bool(self._suspects)

    def add(self, request: str, items: list[Item]) -> None:
        """Put a unit's items at the end of its request's turn."""
        turn = self._turns.get(request)
        if turn is None:
            turn = self._turns[request] = _Turn()
            self._order.append(request)
        turn.items.extend(items)

    def retry(self, batch: list[Item]) -> None:
        """These items run next, as a batch of their own."""
        if batch:
            self._retries.append(batch)

    def suspect(self, unit: str, batch: list[Item], *, one_by_one: bool) -> None:
        """These items, and what else of their unit is here, run apart from all others."""
        self._suspects[unit] = _Suspect(deque([*batch, *self.remove(unit)]), one_by_one)

    def remove(self, unit: str) -> list[Item]:
        """Take a unit's items off the shelf, wherever they wait."""
        suspect = self._suspects.pop(unit, None)
        removed = list(suspect.items) if suspect is not None else []
        for batch in self._retries:
            removed += [item for item in batch if item.unit == unit]
        self._retries = deque(
            kept for batch in self._retries if (kept := [i for i in batch if i.unit != unit])
        )
        for request, turn in list(self._turns.items()):
            if any(item.unit == unit for item in turn.items):
                removed += [item for item in turn.items if item.unit == unit]
                turn.items = deque(item for item in turn.items if item.unit != unit)
                if not turn.items:
                    self._end_turn(request)
        return removed

    def _end_turn(self, request: str) -> None:
        del self._turns[request]
        self._order.remove(request)

    def take(self, budget: Budget, cost: CostModel) -> list[Item]:
        """Form the next batch; an item too large for the budget runs alone. Empty if none wait."""
        if self._retries:
            return self._retries.popleft()
        batch: list[Item] = []
        left = _Left(budget, cost)
        quantum = budget.seconds / max(1, len(self._order))
        while self._order:
            request = self._order[0]
            turn = self._turns[request]
            if not turn.begun:
                # At least its first item, so that a pass over the requests always takes something.
                turn.deficit = max(turn.deficit + quantum, cost.item_s(turn.items[0].tokens))
                turn.begun = True
            if not self._take_turn(turn, batch, left):
                return batch
            turn.begun = False
            self._order.popleft()
            if turn.items:
                self._order.append(request)
            else:
                del self._turns[request]
        return batch

    def take_suspect(self, budget: Budget, cost: CostModel) -> list[Item]:
        """The next suspect unit, or as much of it as the budget allows."""
        unit, suspect = next(iter(self._suspects.items()))
        items = suspect.items
        batch = [items.popleft()]
        left = _Left(budget, cost)
        left.take(batch[0], cost.item_s(batch[0].tokens))
        while items and not suspect.one_by_one:
            seconds = cost.item_s(items[0].tokens)
            if not left.fits(items[0], seconds):
                break
            left.take(items[0], seconds)
            batch.append(items.popleft())
        if not items:
            del self._suspects[unit]
        return batch

    @staticmethod
    def _take_turn(turn: _Turn, batch: list[Item], left: _Left) -> bool:
        """Move what the turn may take into the batch; False when the batch is full."""
        while turn.items:
            item = turn.items[0]
            seconds = left.cost.item_s(item.tokens)
            if batch and not left.fits(item, seconds):
                return False
            if seconds > turn.deficit:
                break
            batch.append(turn.items.popleft())
            turn.deficit -= seconds
            left.take(item, seconds)
        return True


class _Left:
    """What of a batch's budget is still free."""

    __slots__ = ("cost", "items", "seconds", "tokens")

    def __init__(self, budget: Budget, cost: CostModel) -> None:
        self.cost = cost
        self.seconds = budget.seconds - cost.base_s
        self.tokens = budget.tokens
        self.items = budget.items

    def fits(self, item: Item, seconds: float) -> bool:
        return seconds <= self.seconds and item.tokens <= self.tokens and self.items > 0

    def take(self, item: Item, seconds: float) -> None:
        self.seconds -= seconds
        self.tokens -= item.tokens
        self.items -= 1
