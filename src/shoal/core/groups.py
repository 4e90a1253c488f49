"""Which workers tell each other of their batch pulls: groups, whose size does not grow with the pool.

A group is a part of the pool by a hash of the workers' names: the whole, a half, a quarter and so on.
Each worker listens to all that it is in, and tells the one that is small enough. So two whose
views of the pool differ for a moment still hear each other. How messages get there it must not know.
"""

from __future__ import annotations

from hashlib import blake2b

from shoal.core.events import Group
from shoal.core.pool import Pool

#: A pool is halved until groups have no more lanes than this, on average: a worker then hears some
#: hundreds of messages a second, about 15 for each batch of its own.
LANES = 16
#: With fewer workers in a group, on average, chance would leave many of them alone.
LEAST_WORKERS = 4
#: Most groups of a pool, enough for 16,000 lanes: each worker listens to 11.
MOST_GROUPS = 1 << 10


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
    digest = blake2b(worker.encode(), digest_size=4).digest()
    return Group(groups, int.from_bytes(digest) % groups)


class Audience:
    """Whom this worker tells."""

    def __init__(self, worker: str, lanes: int, pool: Pool) -> None:
        self._worker = worker
        self._lanes = lanes
        self._pool = pool
        self._group = _part(worker, 1)

    def of(self, model: str) -> Group | None:
        """The group to tell of a pull of this model; None where nobody else could use it.

        Who serves one model only asks for that whatever others do.
        """
        pool = self._pool
        if not pool.copies(model) or pool.served < 2:
            return None
        groups = groups_of(1 + pool.workers, self._lanes + pool.lanes)
        if groups != self._group.groups:
            self._group = _part(self._worker, groups)
        return self._group
