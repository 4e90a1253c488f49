"""Whose turn it is: keys, their users, priorities and requests share predicted seconds.

The one rule of a gateway's line and of a worker's shelf. It decides the order only; it must not
know what an entry is, or how much may be taken at once.

Each level of the tree (keys, the users of a key, the requests of a user) keeps what each sharer
had, in seconds. **Next is who had least. Who comes in counts as having had as much as who had
most.** From these two sentences follows:

- Sharers with work get the same seconds, whatever their entries cost: what two of them had differs
  by the largest entry at most.
- Who comes in waits until the others have what the foremost has: for at most the largest entry,
  and one of its own, of each other sharer, however much those have waiting.
- Who comes in goes before nobody who had less. So ever new sharers, a request each, never keep an
  old one from its turn.
- Who was away gets no credit for that, and who comes back is charged for what it had. Nothing is
  kept of those who left: none of them had more than who comes in counts as having had.

Of those that had the same, the earliest due is next, then who waited longest. An entry's cost is
told when it is taken, so that whoever learns it late may share too, and a batch that is full ends
anywhere: whose turn it was, it still is.

This is self-clocked fair queueing (Golestani, INFOCOM 1994: the clock is the tag of what was served
last) by start tags, as start-time fair queueing has them (Goyal, Vin and Cheng, SIGCOMM 1996), since
finish tags would need the cost before. With start tags alone as the clock, new sharers would go
before old ones without end. It shares as deficit round robin does, without a quantum to choose.

Between a user and its requests stands the rank (priority). The highest goes first, but one that was
passed over for long enough (`MAX_PASSED`) gets the next entry.

How to use it::

    queue = FairQueue[str]()
    queue.add(Place(sharers("acme/3f"), rank=0, request="r1"), ["part 1", "part 2"])
    while (part := queue.head()) is not None and fits(part):
        queue.pop(cost_s(part))                     # charged to all who share it
    queue.remove(place)                             # its caller is gone
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Sized
from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")
N = TypeVar("N", bound=Sized)

#: Nothing is free: an entry that was predicted to cost nothing must not go before all others.
LEAST_COST_S = 1e-6
#: Entries of its user that a rank is passed over, and times the seconds of what it last had, before
#: it gets the next entry. So a rank has a ninth of what its user gets, whatever the others' ranks.
MAX_PASSED = 8


def sharers(tenant: str) -> tuple[str, str]:
    """Key and user of a unit's `tenant`, ``<name of the API key>/<user>``: keys share first."""
    key, _, user = tenant.partition("/")
    return key, user


class Place(msgspec.Struct, frozen=True):
    """Where entries wait.

    Attributes:
        sharers: the key, and its user.
        rank: the higher goes first among the requests of one user.
        due: the earliest goes first among requests of one rank that had the same.
    """

    sharers: tuple[str, str]
    rank: int
    request: str
    due: float = 0.0


class FairQueue(Generic[T]):
    """Entries in the order in which their owners share."""

    __slots__ = ("_levels", "_root")

    def __init__(self) -> None:
        self._root: _Turns[_Turns[_Ranks[T]]] = _Turns()
        self._levels: _Levels[T] | None = None  # to the head, while it stays the head

    def __bool__(self) -> bool:
        return bool(self._root)

    def add(self, place: Place, entries: Iterable[T]) -> None:
        """Put `entries`, at least one, behind those of the same request."""
        self._levels = None
        key, user = place.sharers
        users = self._root.get(key) or self._root.join(key, _Turns())
        ranks = users.get(user) or users.join(user, _Ranks())
        requests = ranks.get(place.rank) or ranks.join(place.rank)
        line = requests.get(place.request) or requests.join(place.request, deque(), place.due)
        line.extend(entries)

    def head(self) -> T | None:
        """The entry whose turn it is; None if there is none."""
        if self._levels is None:
            if not self._root:
                return None
            self._levels = self._next()
        return self._levels[0].first()[0]

    def pop(self, cost_s: float) -> T:
        """Take the entry whose turn it is. Raises `IndexError` if there is none."""
        requests, ranks, users = levels = self._levels or self._next()
        line = requests.first()
        entry = line.popleft()
        cost_s = max(cost_s, LEAST_COST_S)
        left = requests.charge(cost_s, bool(line)) or bool(requests)
        stay = ranks.charge(cost_s, left)
        stay = users.charge(cost_s, stay or bool(ranks)) and stay
        stay = self._root.charge(cost_s, stay or bool(users)) and stay
        self._levels = levels if stay else None
        return entry

    def _next(self) -> _Levels[T]:
        users = self._root.first()
        ranks = users.first()
        return ranks.first(), ranks, users

    def remove(self, place: Place, unwanted: Callable[[T], bool] = lambda entry: True) -> list[T]:
        """Take out the entries of this request, or those of them that are `unwanted`."""
        self._levels = None
        key, user = place.sharers
        users = self._root.get(key)
        ranks = users and users.get(user)
        requests = ranks and ranks.get(place.rank)
        line = requests and requests.get(place.request)
        if not (users and ranks and requests and line):
            return []
        removed = [entry for entry in line if unwanted(entry)]
        kept = [entry for entry in line if not unwanted(entry)]
        line.clear()
        line.extend(kept)
        if not line:
            requests.drop(place.request)
        if not requests:
            ranks.drop(place.rank)
        if not ranks:
            users.drop(user)
        if not users:
            self._root.drop(key)
        return removed


class _Turns(Generic[N]):
    """Sharers of one level, and what waits below each; kept only while anything does.

    `most_s`: what the sharer had that had most.
    """

    __slots__ = ("_heap", "_nodes", "_turn", "most_s")

    def __init__(self) -> None:
        self._nodes: dict[str, N] = {}
        self._heap: list[tuple[float, float, int, str, N]] = []
        self._turn = 0
        self.most_s = 0.0

    def __len__(self) -> int:
        return len(self._nodes)

    def get(self, key: str) -> N | None:
        return self._nodes.get(key)

    def join(self, key: str, node: N, due: float = 0.0) -> N:
        self._nodes[key] = node
        self._turn += 1
        heapq.heappush(self._heap, (self.most_s, due, self._turn, key, node))
        return node

    def drop(self, key: str) -> None:
        """Nothing of this sharer waits any more; its place in the heap goes when it comes up."""
        del self._nodes[key]
        if len(self._heap) > 2 * len(self._nodes) + 16:
            self._heap = [place for place in self._heap if self._nodes.get(place[3]) is place[4]]
            heapq.heapify(self._heap)

    def first(self) -> N:
        """What waits of the sharer that is next. Raises `IndexError` if there is none."""
        heap = self._heap
        while self._nodes.get(heap[0][3]) is not heap[0][4]:
            heapq.heappop(heap)
        return heap[0][4]

    def charge(self, cost_s: float, left: bool) -> bool:
        """An entry of the first was taken, and something of it is `left`; whether it is first again."""
        had_s, due, _, key, node = self._heap[0]
        if left and had_s == self.most_s and len(self._heap) == 1:
            return True  # alone: who comes in counts as having had as much, whatever that is
        had_s += cost_s
        if had_s > self.most_s:
            self.most_s = had_s
        if not left:
            heapq.heappop(self._heap)
            del self._nodes[key]
            return False
        self._turn += 1
        heapq.heapreplace(self._heap, (had_s, due, self._turn, key, node))
        return self._heap[0][4] is node


class _Ranks(Generic[T]):
    """Requests of one user by rank; ranks in the order in which they were served last.

    `_after`: from which turn on, and after how many seconds of the user's, each goes before others.
    """

    __slots__ = ("_after", "_had_s", "_requests", "_turn")

    def __init__(self) -> None:
        self._requests: dict[int, _Turns[deque[T]]] = {}
        self._after: dict[int, tuple[int, float]] = {}
        self._turn = 0
        self._had_s = 0.0

    def __len__(self) -> int:
        return len(self._requests)

    def get(self, rank: int) -> _Turns[deque[T]] | None:
        return self._requests.get(rank)

    def join(self, rank: int) -> _Turns[deque[T]]:
        self._after[rank] = (self._turn + MAX_PASSED, 0.0)
        requests = self._requests[rank] = _Turns()
        return requests

    def drop(self, rank: int) -> None:
        del self._requests[rank], self._after[rank]

    def first(self) -> _Turns[deque[T]]:
        return self._requests[self._next()]

    def charge(self, cost_s: float, left: bool) -> bool:
        """As that of `_Turns`; whether it is sure to be the next again."""
        rank = self._next()
        self._turn += 1
        self._had_s += cost_s
        del self._after[rank]  # to be the last in order
        if not left:
            del self._requests[rank]
            return False
        self._after[rank] = (self._turn + MAX_PASSED, self._had_s + MAX_PASSED * cost_s)
        return len(self._requests) == 1

    def _next(self) -> int:
        if len(self._requests) > 1:
            for rank, (turn, had_s) in self._after.items():
                if turn <= self._turn and had_s <= self._had_s:
                    return rank
        return max(self._requests)


_Levels = tuple[_Turns[deque[T]], _Ranks[T], _Turns[_Ranks[T]]]
