"""Loads and evictions that will never end: their process is ended.

Looks at what is under way on each lane, and since when. Batches are `lanes`' and `dispatch`'s.
"""

from __future__ import annotations

from shoal.core.events import Instruction, KillRuntime
from shoal.core.lanes import LOADING_S, LOOK_S, Lane
from shoal.core.models import ModelState

#: A load that takes so many times what was expected, and at least so long, hangs: a cold disk is ten
#: times slower than a warm one.
HANG_FACTOR = 20.0
LEAST_LIMIT_S = 120.0
#: So does letting go of a model: it waits for a batch or another model's load at most.
EVICT_LIMIT_S = LOADING_S


class Hanging:
    """What each lane of a worker has to be done with, and by when."""

    def __init__(self, lanes: dict[str, Lane], models: dict[str, ModelState]) -> None:
        self._lanes = lanes
        self._models = models
        self._due: dict[tuple[str, str], float] = {}
        self._looked_at = 0.0

    def decide(self, now: float) -> list[Instruction]:
        """End what is overdue; `RuntimeDied` says what follows.

        Time in which nobody looked does not count: a worker that was stopped itself must not take
        its runtimes for hung.
        """
        unseen_s = max(0.0, now - self._looked_at - LOOK_S)
        self._looked_at = now
        before, self._due = self._due, {}
        hung: dict[tuple[str, str], None] = {}
        for lane in self._lanes.values():
            for name in [*lane.evicting, *([lane.loading] if lane.loading else [])]:
                due = before.get((lane.id, name))
                due = now + self._limit_s(lane, name) if due is None else due + unseen_s
                if now >= due:
                    hung[lane.id, self._models[name].spec.kind] = None
                    due = now + LEAST_LIMIT_S
                self._due[lane.id, name] = due
        return [KillRuntime(*process) for process in hung]

    def _limit_s(self, lane: Lane, model: str) -> float:
        if model in lane.evicting:
            return EVICT_LIMIT_S
        return max(LEAST_LIMIT_S, HANG_FACTOR * self._models[model].footprint.load_s)

    def next_wake(self) -> float | None:
        return self._looked_at + LOOK_S if self._due else None
