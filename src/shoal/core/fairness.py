"""Whose turn it is: entries of many sharers, handed out so that each gets its share of seconds.

Decides the order only; it must not know what an entry is, or how much may be taken at once.

Start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996) on each level of a tree: tenants,
their users, and the requests of each user; among the requests of one user the higher priority goes
first. It shares as deficit round robin does, by cost and not by count, without a quantum to choose:
whoever begins to send waits for at most one entry of each other sharer, however much those have
waiting. A sharer that was away gets no credit for that, and one that comes back is still charged
for what it just had.

How to use it::

    queue = FairQueue[str]()
    queue.add(Place(sharers("acme/3f"), priority=0, request="r1"), "unit 1", cost_s=0.02)
    while (unit := queue.head()) is not None and fits(unit):
        queue.pop()                                 # charges its cost to all who share it
    queue.remove(place)                             # its caller is gone
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import msgspec

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
_Key = str | int

#: Nothing is free: an entry that was predicted to cost nothing must not go before all others.
LEAST_COST_S = 1e-6
#: Sharers on one level of whom it is remembered what they had, once nothing of theirs waits; some
#: 100 bytes each. The one that left longest ago is forgotten first.
REMEMBERED_MOST = 1024


def sharers(tenant: str) -> tuple[str, str]:
    """The levels of a unit's `tenant`, ``<name of the API key>/<user>``: keys share first."""
    key, _, user = tenant.partition("/")
    return key, user


class Place(msgspec.Struct, frozen=True):
    """Where entries wait.

    Attributes:
        sharers: who shares, the outermost first; of equal length for all entries of a queue.
        priority: higher goes first among the requests of the last sharer.
    """

    sharers: tuple[str, ...]
    priority: int
    request: str


class FairQueue(Generic[T]):
    """Entries in the order in which their sharers take turns. `seconds`: what they cost together."""

    def __init__(self) -> None:
        self._root: _Turns[T] = _Turns()
        self._count = 0
        self.seconds = 0.0

    def __len__(self) -> int:
        return self._count

    def add(self, place: Place, entry: T, cost_s: float) -> None:
        """Put `entry` behind those of the same request."""
        cost_s = max(cost_s, LEAST_COST_S)
        self._count += 1
        self.seconds += cost_s
        levels, line = self._find(place)
        if line is not None:
            line.entries.append((entry, cost_s))
            return
        keys = _keys(place)
        node: _Node[T] = _Line(entry, cost_s)
        for key in reversed(keys[len(levels) :]):
            above: _Level[T] = _Ranks() if isinstance(key, int) else _Turns()
            above.join(key, node)
            node = above
        levels[-1].join(keys[len(levels) - 1], node)

    def head(self) -> T | None:
        """The entry whose turn it is; None if there is none."""
        return self._root.head()[0] if self._count else None

    def pop(self) -> T:
        """Take the entry whose turn it is. Raises `IndexError` if there is none."""
        if not self._count:
            raise IndexError("nothing waits")
        entry, cost_s = self._root.pop()
        self._took(cost_s)
        return entry

    def remove(self, place: Place, unwanted: Callable[[T], bool] = lambda entry: True) -> list[T]:
        """Take out the entries of this request, or those of them that are `unwanted`."""
        levels, line = self._find(place)
        if line is None:
            return []
        removed = line.remove(unwanted)
        for _, cost_s in removed:
            self._took(cost_s)
        node: _Node[T] = line
        for level, key in zip(reversed(levels), reversed(_keys(place)), strict=True):
            if node:
                break
            level.drop(key)
            node = level
        return [entry for entry, _ in removed]

    def _took(self, cost_s: float) -> None:
        self._count -= 1
        # Sums of what was added and taken drift; an empty queue starts anew.
        self.seconds = self.seconds - cost_s if self._count else 0.0

    def _find(self, place: Place) -> tuple[list[_Level[T]], _Line[T] | None]:
        """The levels on the way to a request, and its line if all of the way is there."""
        levels: list[_Level[T]] = [self._root]
        for key in _keys(place):
            node = levels[-1].children.get(key)
            if node is None:
                return levels, None
            if isinstance(node, _Line):
                return levels, node
            assert isinstance(node, _Ranks | _Turns)
            levels.append(node)
        raise ValueError(f"{place.sharers} are fewer levels than the queue has")


def _keys(place: Place) -> tuple[_Key, ...]:
    return (*place.sharers, place.priority, place.request)


class _Node(Protocol[T_co]):
    """What waits below one key; kept only while anything does."""

    def __bool__(self) -> bool: ...

    def head(self) -> tuple[T_co, float]: ...

    def pop(self) -> tuple[T_co, float]: ...


class _Line(Generic[T]):
    """The entries of one request, first come first served."""

    __slots__ = ("entries",)

    def __init__(self, entry: T, cost_s: float) -> None:
        self.entries = deque([(entry, cost_s)])

    def __bool__(self) -> bool:
        return bool(self.entries)

    def head(self) -> tuple[T, float]:
        return self.entries[0]

    def pop(self) -> tuple[T, float]:
        return self.entries.popleft()

    def remove(self, unwanted: Callable[[T], bool]) -> list[tuple[T, float]]:
        entries, self.entries = self.entries, deque()
        removed: list[tuple[T, float]] = []
        for pair in entries:
            (removed if unwanted(pair[0]) else self.entries).append(pair)
        return removed


class _Ranks(Generic[T]):
    """The highest priority with anything waiting goes first, and all of that."""

    __slots__ = ("children",)

    def __init__(self) -> None:
        self.children: dict[_Key, _Node[T]] = {}

    def __bool__(self) -> bool:
        return bool(self.children)

    def head(self) -> tuple[T, float]:
        return self.children[self._highest()].head()

    def pop(self) -> tuple[T, float]:
        highest = self._highest()
        popped = self.children[highest].pop()
        if not self.children[highest]:
            self.drop(highest)
        return popped

    def join(self, key: _Key, child: _Node[T]) -> None:
        self.children[key] = child

    def drop(self, key: _Key) -> None:
        del self.children[key]

    def _highest(self) -> _Key:
        return max(key for key in self.children if isinstance(key, int))


class _Turns(Generic[T]):
    """Children that take turns: next is the one that had least.

    Attributes:
        had_s: seconds each child had, and the number of its turn: that of those who wait, and in
            `left_s` that of those who left.
        clock_s: what the child had that was served last; whoever comes in begins there.
    """

    __slots__ = ("children", "clock_s", "had_s", "heap", "left_s", "turns")

    def __init__(self) -> None:
        self.children: dict[_Key, _Node[T]] = {}
        self.had_s: dict[_Key, tuple[float, int]] = {}
        self.left_s: dict[_Key, float] = {}
        self.heap: list[tuple[float, int, _Key]] = []
        self.clock_s = 0.0
        self.turns = 0

    def __bool__(self) -> bool:
        return bool(self.children)

    def head(self) -> tuple[T, float]:
        return self.children[self._next()].head()

    def pop(self) -> tuple[T, float]:
        key = self._next()
        self.clock_s = heapq.heappop(self.heap)[0]
        entry, cost_s = self.children[key].pop()
        had_s = self.clock_s + cost_s
        if self.children[key]:
            self._await_turn(key, had_s)
        else:
            self._leave(key, had_s)
        return entry, cost_s

    def join(self, key: _Key, child: _Node[T]) -> None:
        self.children[key] = child
        self._await_turn(key, max(self.clock_s, self.left_s.pop(key, 0.0)))

    def drop(self, key: _Key) -> None:
        """Nothing of this child waits any more, and it was not served."""
        self._leave(key, self.had_s[key][0])
        if len(self.heap) > 2 * len(self.children) + 16:
            self.heap = [(had_s, turn, key) for key, (had_s, turn) in self.had_s.items()]
            heapq.heapify(self.heap)

    def _next(self) -> _Key:
        """Whose turn it is. Places in the heap of those that left are dropped when they come up."""
        heap = self.heap
        while self.had_s.get(heap[0][2]) != heap[0][:2]:
            heapq.heappop(heap)
        return heap[0][2]

    def _await_turn(self, key: _Key, had_s: float) -> None:
        # Of those that had the same, the one that has waited longest is next.
        self.turns += 1
        self.had_s[key] = (had_s, self.turns)
        heapq.heappush(self.heap, (had_s, self.turns, key))

    def _leave(self, key: _Key, had_s: float) -> None:
        del self.children[key], self.had_s[key]
        if had_s > self.clock_s:
            self.left_s[key] = had_s
        if len(self.left_s) > REMEMBERED_MOST:
            del self.left_s[next(iter(self.left_s))]


_Level = _Turns[T] | _Ranks[T]
