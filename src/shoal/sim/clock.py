"""Virtual time: a heap of calls to come, and links that keep the order of what they carry.

Decides nothing but order: by time, then by who asked first, so that a run is the same each time.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable
from typing import Any


class Clock:
    """Seconds since the world began, and what is to happen when."""

    def __init__(self) -> None:
        self.now = 0.0
        self.calls = 0
        self._heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._soon: deque[Callable[[], None]] = deque()

    def at(self, when: float, call: Callable[..., None], *args: Any) -> None:
        """Call at `when`, or now if that is past; calls at one time keep the order they were put in."""
        self.calls += 1
        heapq.heappush(self._heap, (when if when > self.now else self.now, self.calls, call, args))

    def after(self, seconds: float, call: Callable[..., None], *args: Any) -> None:
        """Call so many seconds from now."""
        self.calls += 1
        heapq.heappush(self._heap, (self.now + seconds, self.calls, call, args))

    def soon(self, call: Callable[[], None]) -> None:
        """Call once all that is to happen at this time has."""
        self._soon.append(call)

    def run(self, until: float, stop: Callable[[], bool] | None = None) -> None:
        """Let time pass up to `until`, or until `stop` says so."""
        heap, soon, pop = self._heap, self._soon, heapq.heappop
        while soon or (heap and heap[0][0] <= until):
            if soon and not (heap and heap[0][0] <= self.now):
                soon.popleft()()
                continue
            if stop is not None and stop():
                return
            self.now, _, call, args = pop(heap)
            call(*args)
        self.now = max(self.now, until)


class Link:
    """One direction of a TCP connection: a hop takes `least_s` and an exponential rest.

    What was sent first arrives first, as bytes of one connection do.
    """

    __slots__ = ("_clock", "_draw", "_last", "_least_s", "_rate")

    def __init__(self, clock: Clock, random_: random.Random, least_s: float, mean_s: float) -> None:
        self._clock = clock
        self._draw = random_.expovariate
        self._least_s = least_s
        self._rate = 1.0 / max(1e-9, mean_s - least_s)
        self._last = 0.0

    def send(self, call: Callable[..., None], *args: Any) -> None:
        """Call at the other end when it gets there."""
        clock = self._clock
        arrival = clock.now + self._least_s + self._draw(self._rate)
        if arrival > self._last:
            self._last = arrival
        clock.at(self._last, call, *args)
