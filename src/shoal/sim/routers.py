"""The rivals: rules by which a router that pushes chooses a worker for each unit."""

from __future__ import annotations

import random
from typing import Protocol

import numpy as np

from shoal.sim.loads import View


class Router(Protocol):
    """Chooses the worker of a unit of a model."""

    def choose(self, model: int) -> int: ...


class RoundRobin:
    """Each unit goes to the next worker in turn. Knows nothing and needs nothing."""

    def __init__(self, workers: int, random_: random.Random) -> None:
        self._workers = workers
        self._next = random_.randrange(workers)

    def choose(self, model: int) -> int:
        self._next = (self._next + 1) % self._workers
        return self._next


class LeastLoaded:
    """The worker with the least work left, of all of them, as far as the view knows."""

    def __init__(self, view: View) -> None:
        self._view = view

    def choose(self, model: int) -> int:
        return int(self._view.seconds.argmin())


class PowerOfTwo:
    """Of two workers drawn at random, the one with less work left (Mitzenmacher, 2001)."""

    def __init__(self, view: View, random_: random.Random) -> None:
        self._view = view
        self._random = random_

    def choose(self, model: int) -> int:
        seconds = self._view.seconds
        first = int(self._random.random() * len(seconds))
        second = int(self._random.random() * len(seconds))
        return first if seconds[first] <= seconds[second] else second


class Affinity:
    """The least loaded of the model's own replicas; of all workers if that one has too much.

    `sets`: the workers planned for each model. `spill_s`: work left in the best replica above which
    a unit goes to the least loaded worker of all; infinite: never, each model has its own pool.
    """

    def __init__(self, view: View, sets: list[list[int]], spill_s: float) -> None:
        self._view = view
        self._sets = [np.array(workers) for workers in sets]
        self._spill_s = spill_s

    def choose(self, model: int) -> int:
        seconds = self._view.seconds
        own = self._sets[model]
        best = int(own[seconds[own].argmin()])
        if seconds[best] > self._spill_s:
            return int(seconds.argmin())
        return best
