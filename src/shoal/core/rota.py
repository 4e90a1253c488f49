"""Deficit round robin over predicted seconds (Shreedhar & Varghese, 1995), in levels.

Sharers take turns; who shares what is for `core.turns` to say. A run of items is dealt at once
(`deal`, then `charge`), so that the levels are walked once a run. Within a round the earliest due
goes first; who joins waits for the round that is under way.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

from shoal.core.cost import CostModel
from shoal.core.events import Item

#: Deficits are sums of small floats.
TINY_S = 1e-9
#: Before anything that has a due time.
FIRST = -math.inf


class Terms:
    """What a turn is measured in: `quantum_s` is shared by those that take turns."""

    __slots__ = ("cost", "quantum_s")

    def __init__(self, cost: CostModel, quantum_s: float) -> None:
        self.cost = cost
        self.quantum_s = quantum_s


class Line:
    """The items of one request, in the order of its units."""

    __slots__ = ("_units",)

    def __init__(self) -> None:
        self._units: dict[str, deque[Item]] = {}

    def __bool__(self) -> bool:
        return bool(self._units)

    def add(self, unit: str, items: Iterable[Item]) -> None:
        self._units.setdefault(unit, deque()).extend(items)

    def first(self) -> Item:
        return next(iter(self._units.values()))[0]

    def pop(self) -> Item:
        items = next(iter(self._units.values()))
        item = items.popleft()
        if not items:
            del self._units[item.unit]
        return item

    def remove(self, unit: str) -> list[Item]:
        return list(self._units.pop(unit, ()))

    def deal(self, terms: Terms) -> tuple[Line, float]:
        return self, math.inf

    def charge(self, seconds: float) -> None:
        pass

    def turn_ended(self) -> None:
        pass

    def interrupt(self) -> None:
        pass


class Node(Protocol):
    """What waits below one key; kept only while anything does."""

    def __bool__(self) -> bool: ...

    def deal(self, terms: Terms) -> tuple[Line, float]: ...

    def charge(self, seconds: float) -> None: ...

    def turn_ended(self) -> None: ...

    def interrupt(self) -> None: ...


N = TypeVar("N", bound=Node)


class _Turn(Generic[N]):
    """One sharer and what it may still take in this round."""

    __slots__ = ("begun", "deficit_s", "due", "key", "node", "took")

    def __init__(self, key: str, node: N, due: float) -> None:
        self.key = key
        self.node = node
        self.due = due
        self.deficit_s = 0.0
        self.begun = False
        self.took = False

    def begin(self, quantum_s: float, first_s: float) -> None:
        """Add this round's share, but at least the first item, so that each round takes something."""
        self.deficit_s = max(min(self.deficit_s, quantum_s) + quantum_s, first_s)
        self.begun, self.took = True, False


class Rota(Generic[N]):
    """Sharers that take turns by deficit round robin; within a round the earliest due goes first."""

    __slots__ = ("_heap", "_joined", "_round", "_turns")

    def __init__(self) -> None:
        self._turns: dict[str, _Turn[N]] = {}
        self._heap: list[tuple[int, float, int, _Turn[N]]] = []
        self._round = 0
        self._joined = 0

    def __bool__(self) -> bool:
        return bool(self._turns)

    def get(self, key: str) -> N | None:
        turn = self._turns.get(key)
        return None if turn is None else turn.node

    def join(self, key: str, node: N, due: float = 0.0) -> N:
        turn = self._turns[key] = _Turn(key, node, due)
        self._queue(turn, due)
        return node

    def drop(self, key: str) -> None:
        """Nothing of this sharer waits any more; its place in the heap goes when it comes up."""
        del self._turns[key]

    def deal(self, terms: Terms) -> tuple[Line, float]:
        """The request whose items are next, and the seconds it may take of this turn."""
        while True:
            turn = self._top()
            line, allowed_s = turn.node.deal(terms)
            first_s = terms.cost.item_s(line.first().tokens)
            if not turn.begun:
                turn.begin(terms.quantum_s / len(self._turns), first_s)
            if first_s <= turn.deficit_s + TINY_S:
                return line, min(allowed_s, turn.deficit_s)
            self._end_turn(turn, turn.due)

    def charge(self, seconds: float) -> None:
        """What was dealt took this long."""
        turn = self._top()
        turn.deficit_s -= seconds
        turn.took = True
        turn.node.charge(seconds)
        if not turn.node:
            heapq.heappop(self._heap)
            del self._turns[turn.key]

    def interrupt(self) -> None:
        """The batch is full: whoever was cut short is first in the next round, with what is left."""
        if not self._turns:
            return
        turn = self._top()
        turn.node.interrupt()
        if turn.begun and turn.took:
            self._end_turn(turn, due=FIRST)

    def turn_ended(self) -> None:
        pass

    def _top(self) -> _Turn[N]:
        heap = self._heap
        while self._turns.get(heap[0][3].key) is not heap[0][3]:
            heapq.heappop(heap)
        self._round = heap[0][0]
        return heap[0][3]

    def _end_turn(self, turn: _Turn[N], due: float) -> None:
        heapq.heappop(self._heap)
        turn.begun = False
        turn.node.turn_ended()
        self._queue(turn, due)

    def _queue(self, turn: _Turn[N], due: float) -> None:
        self._joined += 1
        heapq.heappush(self._heap, (self._round + 1, due, self._joined, turn))
