"""What a router knows of how much each worker still has to do.

Work is in predicted seconds, of what was sent and has not come back. Exact knowledge is that of an
oracle; real routers learn of each other's sends and of what finished only when workers report.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from shoal.sim.clock import Clock

Floats = npt.NDArray[np.float64]

#: Breaks ties, so that several routers do not all choose the first of equals.
TIE_S = 1e-9


class View(Protocol):
    """Predicted seconds each worker still has to do, as one router sees it."""

    seconds: Floats

    def sent(self, worker: int, seconds: float) -> None:
        """This router sent work."""

    def done(self, worker: int, seconds: float) -> None:
        """Work that this router sent came back."""


class Exact:
    """The truth, shared by all routers, without any delay."""

    def __init__(self, workers: int, seed: int) -> None:
        self.seconds: Floats = np.random.default_rng(seed).random(workers) * TIE_S

    def sent(self, worker: int, seconds: float) -> None:
        self.seconds[worker] += seconds

    def done(self, worker: int, seconds: float) -> None:
        self.seconds[worker] -= seconds


class Stale:
    """The truth as it was up to `period_s` ago, and what this router has sent since."""

    def __init__(
        self, clock: Clock, truth: Exact, period_s: float, phase: float, seed: int
    ) -> None:
        self._clock = clock
        self._truth = truth
        self._period_s = period_s
        self._random = np.random.default_rng(seed)
        self.seconds: Floats = truth.seconds.copy()
        clock.after(period_s * phase, self._report)

    def _report(self) -> None:
        ties = self._random.random(len(self.seconds)) * TIE_S
        self.seconds = self._truth.seconds + ties
        self._clock.after(self._period_s, self._report)

    def sent(self, worker: int, seconds: float) -> None:
        self.seconds[worker] += seconds
        self._truth.sent(worker, seconds)

    def done(self, worker: int, seconds: float) -> None:
        self._truth.done(worker, seconds)
