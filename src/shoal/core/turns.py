"""Whose items come next on a shelf: tenants, their users, priorities, requests.

API keys share by deficit round robin (`core.rota`), then the users of a key, then the requests of a
user. Among the requests of one user the higher rank goes first, but a rank that was passed over
`MAX_PASSED` times gets the next turn: whatever the ranks of others, it waits for a bounded number
of batches. It must not know what a batch may hold.
"""

from __future__ import annotations

from shoal.core.events import Item
from shoal.core.rota import Line, Rota, Terms

#: Turns of its user that a rank may be passed over; a turn is about a batch. Lower ranks get at
#: least a ninth of what the user gets.
MAX_PASSED = 8


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
