"""Virtual time: a heap of calls to come, and links that keep the order of what they carry.

Decides nothing but order: by time, then by who asked first, so that a run is the same each time.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from typing import Any


class Clock:
    """Seconds since the world began, and what is to happen when."""

    def __init__(self) -> None:
        self.now = 0.0
        self.calls = 0
        self._heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []

    def at(self, when: float, call: Callable[..., None], *args: Any) -> None:
        """Call at `when`, or now if that is past; calls at one time keep the order they were put in."""
        self.calls += 1
        heapq.heappush(self._heap, (max(when, self.now), self.calls, call, args))

    def after(self, seconds: float, call: Callable[..., None], *args: Any) -> None:
        """Call so many seconds from now."""
        self.calls += 1
        heapq.heappush(self._heap, (self.now + seconds, self.calls, call, args))

    def run(self, until: float, stop: Callable[[], bool] | None = None) -> None:
        """Let time pass up to `until`, or until `stop` says so."""
        heap, pop = self._heap, heapq.heappop
        while heap and heap[0][0] <= until:
            if stop is not None and stop():
                return
            self.now, _, call, args = pop(heap)
            call(*args)
        self.now = max(self.now, until)


class Link:
    """One direction of a TCP connection: a hop takes `least_s` and an exponential rest.

    What was sent first arrives first, as bytes of one connection do.
    """

    __slots__ = ("_clock", "_last", "_least_s", "_random", "_rate")

    def __init__(self, clock: Clock, random_: random.Random, least_s: float, mean_s: float) -> None:
        self._clock = clock
        self._random = random_
        self._least_s = least_s
        self._rate = 1.0 / max(1e-9, mean_s - least_s)
        self._last = 0.0

    def send(self, call: Callable[..., None], *args: Any) -> None:
        """Call at the other end when it gets there."""
        arrival = self._clock.now + self._least_s + self._random.expovariate(self._rate)
        self._last = max(self._last, arrival)
        self._clock.at(self._last, call, *args)
