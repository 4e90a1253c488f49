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
    queue.take(lambda part: cost_s(part) if fits(part) else None)  # in turn, charged to their sharers
    queue.remove(place)  # its caller is gone
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Generic, Protocol, TypeVar

import msgspec

T = TypeVar("T")
N = TypeVar("N", bound="_Node")

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

    __slots__ = ("_root",)

    def __init__(self) -> None:
        self._root: _Turns[_Turns[_Ranks[T]]] = _Turns()

    def __bool__(self) -> bool:
        return bool(self._root)

    def add(self, place: Place, entries: Iterable[T]) -> None:
        """Put `entries`, at least one, behind those of the same request."""
        key, user = place.sharers
        users = self._root.get(key) or self._root.join(key, _Turns())
        ranks = users.get(user) or users.join(user, _Ranks())
        requests = ranks.get(place.rank) or ranks.join(place.rank)
        line = requests.get(place.request) or requests.join(place.request, _Line(), place.due)
        line.extend(entries)

    def take(self, cost_of: Callable[[T], float | None]) -> list[T]:
        """Take the entries whose turn it is, one after the other, until one is not to be taken.

        `cost_of` is asked of each when its turn comes: predicted seconds, or None to end there. It
        must not change the queue.
        """
        taking = _Taking(cost_of)
        self._root.take(taking, math.inf)
        return taking.taken

    def remove(self, place: Place, unwanted: Callable[[T], bool] = lambda entry: True) -> list[T]:
        """Take out the entries of this request, or those of them that are `unwanted`."""
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


class _Taking(Generic[T]):
    """One `take` under way. `ended`: the next entry is not to be taken."""

    __slots__ = ("cost_of", "ended", "taken")

    def __init__(self, cost_of: Callable[[T], float | None]) -> None:
        self.cost_of = cost_of
        self.taken: list[T] = []
        self.ended = False


class _Node(Protocol):
    """What waits of one sharer."""

    def __len__(self) -> int: ...

    def take(self, taking: _Taking[Any], limit_s: float) -> float:
        """Take entries until they cost `limit_s`, one in any case; returns what they cost."""


class _Line(deque[T]):
    """The entries of one request."""

    __slots__ = ()

    def take(self, taking: _Taking[T], limit_s: float) -> float:
        spent_s = 0.0
        while self:
            cost_s = taking.cost_of(self[0])
            if cost_s is None:
                taking.ended = True
                break
            taking.taken.append(self.popleft())
            spent_s += max(cost_s, LEAST_COST_S)
            if spent_s >= limit_s:
                break
        return spent_s


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

    def take(self, taking: _Taking[Any], limit_s: float) -> float:
        heap, spent_s = self._heap, 0.0
        while heap and not taking.ended:
            had_s, due, turn, key, node = heapq.heappop(heap)
            if self._nodes.get(key) is not node:
                continue  # dropped
            lead_s = heap[0][0] - had_s if heap else math.inf  # so long it stays the first
            left_s = limit_s - spent_s
            cost_s = node.take(taking, lead_s if lead_s < left_s else left_s)
            spent_s += cost_s
            if not node:
                del self._nodes[key]
                self.most_s = max(self.most_s, had_s + cost_s)
            else:
                # Alone it is charged nothing: who comes in counts as having had as much anyway.
                if cost_s and (heap or had_s < self.most_s):
                    had_s += cost_s
                    turn = self._turn = self._turn + 1
                    if had_s > self.most_s:
                        self.most_s = had_s
                heapq.heappush(heap, (had_s, due, turn, key, node))
            if spent_s >= limit_s:
                break
        return spent_s


class _Ranks(Generic[T]):
    """Requests of one user by rank; ranks in the order in which they were served last.

    `_after`: from which turn on, and after how many seconds of the user's, each goes before others.
    """

    __slots__ = ("_after", "_had_s", "_requests", "_turn")

    def __init__(self) -> None:
        self._requests: dict[int, _Turns[_Line[T]]] = {}
        self._after: dict[int, tuple[int, float]] = {}
        self._turn = 0
        self._had_s = 0.0

    def __len__(self) -> int:
        return len(self._requests)

    def get(self, rank: int) -> _Turns[_Line[T]] | None:
        return self._requests.get(rank)

    def join(self, rank: int) -> _Turns[_Line[T]]:
        self._after[rank] = (self._turn + MAX_PASSED, 0.0)
        requests = self._requests[rank] = _Turns()
        return requests

    def drop(self, rank: int) -> None:
        del self._requests[rank], self._after[rank]

    def take(self, taking: _Taking[Any], limit_s: float) -> float:
        spent_s = 0.0
        while self._requests:
            rank = self._next()
            requests = self._requests[rank]
            alone = len(self._requests) == 1
            cost_s = requests.take(taking, limit_s - spent_s if alone else 0.0)
            spent_s += cost_s
            if not requests:
                self.drop(rank)
            elif cost_s and not alone:
                self._charge(rank, cost_s)
            if taking.ended or spent_s >= limit_s:
                break
        return spent_s

    def _charge(self, rank: int, cost_s: float) -> None:
        """An entry of this rank went before the others."""
        self._turn += 1
        self._had_s += cost_s
        del self._after[rank]  # to be the last in order
        self._after[rank] = (self._turn + MAX_PASSED, self._had_s + MAX_PASSED * cost_s)

    def _next(self) -> int:
        if len(self._requests) > 1:
            for rank, (turn, had_s) in self._after.items():
                if turn <= self._turn and had_s <= self._had_s:
                    return rank
        return max(self._requests)
