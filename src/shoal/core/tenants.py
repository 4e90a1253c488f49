"""Predicted seconds by tenant, and how they take turns with a request that comes.

Decides how much of others' work comes before a new request. It must not know queues or gateways.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from shoal.core.fairness import sharers

#: Work that is predicted to take no time counts as some.
LEAST_S = 1e-6
#: The user that stands for all those of a key who are too many to be told by name.
REST = "…"


def before_s(waiting_s: Mapping[str, float], tenant: str, cost_s: float, requests: int) -> float:
    """Predicted seconds of what waits that are served before a new request of this cost is done.

    Each of the tenant's other `requests` gets about as much as the new one until that is done, each
    other user of its key as much as all of those together, and each other key as much as all of
    its own: a tenant that fills the queue waits for itself, the others hardly.
    """
    own_s = cost_s + min(waiting_s.get(tenant, 0.0), requests * cost_s)
    key = sharers(tenant)[0]
    of_key_s, of_others_s = own_s, defaultdict[str, float](float)
    for other, seconds in waiting_s.items():
        other_key = sharers(other)[0]
        if other_key != key:
            of_others_s[other_key] += seconds
        elif other != tenant:
            of_key_s += min(seconds, own_s)
    return of_key_s - cost_s + sum(min(seconds, of_key_s) for seconds in of_others_s.values())


def part_of(own_s: Mapping[str, float], others_s: Mapping[str, float]) -> float:
    """What part of the turns falls to this gateway, where `own_s` waits here, `others_s` elsewhere.

    Each key has the same, divided over the gateways as its waiting work is.
    """
    own, others = _by_key(own_s), _by_key(others_s)
    keys = own.keys() | others.keys()
    return sum(s / (s + others.get(key, 0.0)) for key, s in own.items()) / len(keys)


def _by_key(seconds: Mapping[str, float]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for tenant, s in seconds.items():
        key = sharers(tenant)[0]
        sums[key] = sums.get(key, LEAST_S) + s
    return sums


class SecondsByTenant:
    """Predicted seconds of units, by tenant; a tenant without any takes no memory."""

    __slots__ = ("_seconds", "_units", "total")

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._units: dict[str, int] = {}
        self.total = 0.0

    def add(self, tenant: str, seconds: float) -> None:
        """One more unit of this tenant."""
        self._units[tenant] = self._units.get(tenant, 0) + 1
        self._seconds[tenant] = self._seconds.get(tenant, 0.0) + seconds
        self.total += seconds

    def remove(self, tenant: str, seconds: float) -> None:
        """One unit of this tenant less, which was added before."""
        self._units[tenant] -= 1
        # Sums of what was added and removed drift; nothing is nothing.
        self._seconds[tenant] = max(0.0, self._seconds[tenant] - seconds)
        if not self._units[tenant]:
            del self._units[tenant], self._seconds[tenant]
        self.total = self.total - seconds if self._units else 0.0

    def of(self, tenant: str) -> float:
        """What this tenant has."""
        return self._seconds.get(tenant, 0.0)

    def with_others(self, others: Mapping[str, float]) -> Mapping[str, float]:
        """What all have, those in `others` included."""
        if not others:
            return self._seconds
        tenants = self._seconds.keys() | others.keys()
        return {tenant: self.of(tenant) + others.get(tenant, 0.0) for tenant in tenants}

    def largest(self, most: int) -> dict[str, float]:
        """What the `most` tenants that have most have; the others of each key as one user."""
        if len(self._seconds) <= most:
            return dict(self._seconds)
        ordered = sorted(self._seconds.items(), key=lambda pair: -pair[1])
        told = dict(ordered[:most])
        for tenant, seconds in ordered[most:]:
            rest = f"{sharers(tenant)[0]}/{REST}"
            told[rest] = told.get(rest, 0.0) + seconds
        return told
