"""Lets requests come to the front ends, one after the other, to each front end in turn."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import Protocol

from shoal.sim.clock import Clock
from shoal.sim.workload import Request


class Entrance(Protocol):
    """Takes requests: a gateway, or a rival's router."""

    def arrive(self, request: Request) -> None: ...


class Arrivals:
    """Requests whose times count from now; only the next one waits on the clock."""

    def __init__(
        self, clock: Clock, requests: Sequence[Request], entrances: Sequence[Entrance]
    ) -> None:
        self._clock = clock
        self._began = clock.now
        self._requests = iter(requests)
        self._entrances = cycle(entrances)
        self._next()

    def _next(self) -> None:
        request = next(self._requests, None)
        if request is not None:
            self._clock.at(self._began + request.at, self._arrive, request)

    def _arrive(self, request: Request) -> None:
        self._next()
        next(self._entrances).arrive(request)
