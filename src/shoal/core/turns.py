"""Whose items come next on a shelf: tenants, their users, priorities, requests.

Deficit round robin (Shreedhar & Varghese, 1995) over predicted seconds on each level: API keys,
the users of a key, the requests of a user. Among the requests of one user the higher rank goes
first, but a rank that was passed over `MAX_PASSED` times gets the next turn: whatever the ranks of
others, it waits for a bounded number of batches. Requests that join wait for the round that is
under way, which is about one batch. It must not know what a batch may hold.

A run of items is dealt at once (`deal`, then `charge`), so that the levels are walked once a run.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

from shoal.core.cost import CostModel
from shoal.core.events import Item

#: Turns of its user that a rank may be passed over; a turn is about a batch. Lower ranks get at
#: least a ninth of what the user gets.
MAX_PASSED = 8
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


class _Node(Protocol):
    """What waits below one key; kept only while anything does."""

    def __bool__(self) -> bool: ...

    def deal(self, terms: Terms) -> tuple[Line, float]: ...

    def charge(self, seconds: float) -> None: ...

    def turn_ended(self) -> None: ...

    def interrupt(self) -> None: ...


N = TypeVar("N", bound=_Node)


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


class _Ranks:
    """Requests of one user by rank: the highest goes first, within what the user may take."""

    __slots__ = ("_favoured", "_passed", "_rotas", "_served")

    def __init__(self) -> None:
        self._rotas: dict[int, Rota[Line]] = {}
        self._passed: dict[int, int] = {}
        self._served: set[int] = set()
        self._favoured: int | None = None

    def __bool__(self) -> bool:
        return bool(self._rotas)

    def get(self, rank: int) -> Rota[Line] | None:
        return self._rotas.get(rank)

    def join(self, rank: int) -> Rota[Line]:
        self._passed[rank] = 0
        rota = self._rotas[rank] = Rota()
        return rota

    def drop(self, rank: int) -> None:
        del self._rotas[rank], self._passed[rank]

    def deal(self, terms: Terms) -> tuple[Line, float]:
        return self._rotas[self._next()].deal(terms)

    def charge(self, seconds: float) -> None:
        rank = self._next()
        self._served.add(rank)
        self._rotas[rank].charge(seconds)
        if not self._rotas[rank]:
            self.drop(rank)

    def interrupt(self) -> None:
        if self._rotas:
            self._rotas[self._next()].interrupt()

    def turn_ended(self) -> None:
        """Note who was passed over in this turn; the most neglected may get the next one."""
        passed = self._passed
        for rank in passed:
            passed[rank] = 0 if rank in self._served else passed[rank] + 1
        self._served.clear()
        most = max(passed, key=lambda rank: (passed[rank], rank))
        self._favoured = most if passed[most] >= MAX_PASSED else None

    def _next(self) -> int:
        if self._favoured in self._rotas:
            return self._favoured
        return max(self._rotas)


class Turns:
    """All items of one class that wait on a shelf, in the order in which their owners share."""

    __slots__ = ("_root",)

    def __init__(self) -> None:
        self._root: Rota[Rota[_Ranks]] = Rota()

    def __bool__(self) -> bool:
        return bool(self._root)

    def add(self, place: Place, unit: str, items: list[Item]) -> None:
        """Put items of a unit behind those of the same request."""
        users = self._root.get(place.key) or self._root.join(place.key, Rota())
        ranks = users.get(place.user) or users.join(place.user, _Ranks())
        rota = ranks.get(place.rank) or ranks.join(place.rank)
        line = rota.get(place.request) or rota.join(place.request, Line(), place.due)
        line.add(unit, items)

    def remove(self, place: Place, unit: str) -> list[Item]:
        """Take out what waits of this unit."""
        users = self._root.get(place.key)
        ranks = users and users.get(place.user)
        rota = ranks and ranks.get(place.rank)
        line = rota and rota.get(place.request)
        if not (users and ranks and rota and line):
            return []
        removed = line.remove(unit)
        if not line:
            rota.drop(place.request)
        if not rota:
            ranks.drop(place.rank)
        if not ranks:
            users.drop(place.user)
        if not users:
            self._root.drop(place.key)
        return removed

    def deal(self, terms: Terms) -> tuple[Line, float]:
        """The line to take items from, and how many seconds of it; at least its first item.

        Something must wait. What was taken is told by `charge` before the next call.
        """
        return self._root.deal(terms)

    def charge(self, seconds: float) -> None:
        self._root.charge(seconds)

    def interrupt(self) -> None:
        """The batch is full."""
        self._root.interrupt()


class Place:
    """Where the items of a unit wait.

    Attributes:
        key, user: of ``<name of the API key>/<user>``; users share what their key gets.
        rank: the higher goes first among those of one user.
        due: the earliest goes first among requests of one rank, within a round.
    """

    __slots__ = ("due", "key", "rank", "request", "user")

    def __init__(self, tenant: str, rank: int, request: str, due: float) -> None:
        self.key, _, self.user = tenant.partition("/")
        self.rank = rank
        self.request = request
        self.due = due
