"""Which workers tell each other of their batch pulls, and which serve a model first: groups, whose size
does not grow with the pool.

A group is a part of the pool by a hash of the workers' names: the whole, a half, a quarter and so on.
Each worker listens to all that it is in, and tells the one that is small enough. So two whose
views of the pool differ for a moment still hear each other.

Groups know nothing of each other's visits, so each model has an order of those that hold it, by a hash of
both (rendezvous hashing: Thaler and Ravishankar, 1998). The first is its home; the others come as more waits
than those before them take (`core.plan`). How messages get there it must not know.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import NamedTuple

from shoal.core.events import Group
from shoal.core.pool import Pool

#: A pool is halved until groups have no more lanes than this, on average: a worker then hears some
#: hundreds of messages a second, about 15 for each batch of its own.
LANES = 16
#: With fewer workers in a group, on average, chance would leave many of them alone.
LEAST_WORKERS = 4
#: Most groups of a pool, enough for 16,000 lanes: each worker listens to 11.
MOST_GROUPS = 1 << 10
#: How often it is looked which groups hold a model: in a pool of a thousand workers that takes 0.1 ms.
LOOK_S = 2.0


def listens_to(worker: str) -> list[Group]:
    """Every group that this worker can be in, the whole pool first."""
    return [_part(worker, 1 << level) for level in range(MOST_GROUPS.bit_length())]


def groups_of(workers: int, lanes: int) -> int:
    """How many groups a pool of so many workers, and lanes of them all, is cut into."""
    groups, most = 1, min(workers // LEAST_WORKERS, MOST_GROUPS)
    while lanes > LANES * groups and 2 * groups <= most:
        groups *= 2
    return groups


def _part(worker: str, groups: int) -> Group:
    return Group(groups, _hash(worker, 4) % groups)


def _hash(text: str, size: int) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=size).digest())


class _Order(NamedTuple):
    """Numbers of the groups that hold a model, home first, and the place of this worker's own among them."""

    until: float
    groups: list[int]
    own: int


def _at_home(model: str) -> int:
    return 0


class Audience:
    """Whom this worker tells, and how far from home models are here."""

    def __init__(self, worker: str, lanes: int, pool: Pool) -> None:
        self._worker = worker
        self._lanes = lanes
        self._pool = pool
        self._group = _part(worker, 1)
        self._orders: dict[str, _Order] = {}
        self._hashes: dict[str, int] = {}

    def of(self, model: str, now: float, *, much: bool = False) -> list[Group]:
        """The groups to tell of a pull of this model; none where nobody else could use it.

        `much`: so much waits, or is taken, that it matters to its home and to the next group, too. Who serves
        one model only asks for that whatever others do.
        """
        pool = self._pool
        if not pool.copies(model) or pool.served < 2:
            return []
        group = self._own()
        if group.groups == 1 or not much:
            return [group]
        _, numbers, own = self._order(model, now)
        told = dict.fromkeys([own, 0, min(own + 1, len(numbers) - 1)])
        return [Group(group.groups, numbers[place]) for place in told]

    def aways(self, now: float) -> Callable[[str], int]:
        """How many groups come before this worker's with a model, as far as known now: 0 at home."""
        if self._own().groups == 1:
            return _at_home
        return lambda model: self._order(model, now).own

    def _own(self) -> Group:
        pool = self._pool
        groups = groups_of(1 + pool.workers, self._lanes + pool.lanes)
        if groups != self._group.groups:
            self._group = _part(self._worker, groups)
            self._orders.clear()
        return self._group

    def _order(self, model: str, now: float) -> _Order:
        known = self._orders.get(model)
        if known is None or known.until <= now:
            groups, own = self._group.groups, self._group.number
            holding = {self._hashed(worker) % groups for worker in self._pool.holding(model)}
            ordered = sorted(holding | {own}, key=lambda number: _hash(f"{number}/{model}", 8))
            known = self._orders[model] = _Order(now + LOOK_S, ordered, ordered.index(own))
        return known

    def _hashed(self, worker: str) -> int:
        found = self._hashes.get(worker)
        if found is None:
            found = self._hashes[worker] = _hash(worker, 4)
        return found
