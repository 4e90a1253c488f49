"""Loads and evictions that will never end: their process is ended.

Looks at what is under way on each lane, and since when. Batches are `lanes`' and `dispatch`'s.
"""

from __future__ import annotations

from shoal.core.events import AskProcessor, Instruction, KillRuntime
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
        self._waited_s: dict[tuple[str, str], float] = {}
        self._looked_at = 0.0

    def decide(self, now: float) -> list[Instruction]:
        """End what is overdue; `RuntimeDied` says what follows.

        Time in which nobody looked does not count: a worker that was stopped itself must not take
        its runtimes for hung. See `patience` for what counts of the rest.
        """
        seen_s = min(now - self._looked_at, LOOK_S)
        self._looked_at = now
        before, self._waited_s = self._waited_s, {}
        out: dict[Instruction, None] = {}
        for lane in self._lanes.values():
            for name in [*lane.evicting, *([lane.loading] if lane.loading else [])]:
                kind, limit_s = self._models[name].spec.kind, self._limit_s(lane, name)
                waited_s = before.get((lane.id, name))
                counts_s = lane.patience.counts(kind, seen_s, now)
                waited_s = 0.0 if waited_s is None else waited_s + counts_s
                if waited_s >= limit_s:
                    out[KillRuntime(lane.id, kind)] = None
                    waited_s = limit_s - LEAST_LIMIT_S
                elif lane.patience.asks(kind, waited_s, now):
                    out[AskProcessor(lane.id, kind)] = None
                self._waited_s[lane.id, name] = waited_s
        return list(out)

    def _limit_s(self, lane: Lane, model: str) -> float:
        if model in lane.evicting:
            return EVICT_LIMIT_S
        return max(LEAST_LIMIT_S, HANG_FACTOR * self._models[model].footprint.load_s)

    def next_wake(self) -> float | None:
        return self._looked_at + LOOK_S if self._waited_s else None
