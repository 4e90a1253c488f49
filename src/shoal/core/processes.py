"""Which runtime processes run: when they are started, what follows when they end, and what they load next.

A process is started for what is to be loaded in it. One that died or was stopped is started anew and
loads again what it held; a model whose loads keep killing it is given up. Batches are `dispatch`'s.
"""

from __future__ import annotations

from collections.abc import Iterable

from shoal.core.events import Instruction, Load, StartRuntime
from shoal.core.hanging import Hanging
from shoal.core.lanes import Lane, Runtime
from shoal.core.memory import DEVICE_SHARE
from shoal.core.models import ModelState
from shoal.core.residency import Residency

#: Deaths of a runtime in a row, while it started or loaded a model, until that counts as the
#: model's failure: one may be an accident, and each costs the lane's other models a reload.
MAX_LOAD_CRASHES = 3


class Processes:
    """The runtime processes of all lanes of a worker."""

    def __init__(
        self, lanes: dict[str, Lane], models: dict[str, ModelState], residency: Residency
    ) -> None:
        self._lanes = lanes
        self._models = models
        self._residency = residency
        self._hanging = Hanging(lanes, models)

    def started(self, lane: Lane, kind: str, now: float, device_bytes: int = 0) -> list[ModelState]:
        """The process is up, on a device of this size if it told; returns models that cannot fit."""
        runtime = lane.runtimes[kind]
        runtime.state, runtime.started_at = "up", now
        runtime.on_device = device_bytes > 0
        if lane.memory.budget is None and device_bytes > 0:
            lane.memory.budget = int(device_bytes * DEVICE_SHARE)
        latest_first = [self._models[name] for name in reversed(lane.to_load)]
        return self._residency.refuse_misfits(lane, latest_first, now)

    def died(
        self, lane: Lane, kind: str, reason: str, now: float, *, computing: bool
    ) -> list[ModelState]:
        """Everything the process held is to be loaded again; returns the models given up."""
        runtime = lane.runtimes.setdefault(kind, Runtime())
        blamed = self._of(kind, lane.to_load) if runtime.state == "starting" else []
        if lane.loading is not None and self._models[lane.loading].spec.kind == kind:
            blamed = [self._models[lane.loading]]
        runtime.died(now, computing=computing)
        self._lost(lane, kind)
        return [model for model in blamed if self._gave_up(lane, model, reason, now)]

    def stopped(self, lane: Lane, kind: str, now: float) -> None:
        """It ended as it was told to: start it anew and load what it held."""
        lane.runtimes[kind].stopped(now)
        self._lost(lane, kind)

    def _lost(self, lane: Lane, kind: str) -> None:
        """The process is gone: what it was letting go is free, what it held is loaded again."""
        lane.patience.ended(kind)
        for model in self._of(kind, sorted(lane.evicting)):
            self._residency.evicted(lane, model)
        held = [*sorted(lane.resident), *([lane.loading] if lane.loading else [])]
        for model in self._of(kind, held):
            self._residency.lost(lane, model)

    def _of(self, kind: str, names: Iterable[str]) -> list[ModelState]:
        return [model for name in names if (model := self._models[name]).spec.kind == kind]

    def _gave_up(self, lane: Lane, model: ModelState, reason: str, now: float) -> bool:
        model.load_crashes += 1
        if model.load_crashes < MAX_LOAD_CRASHES:
            return False
        self._residency.load_failed(lane, model, f"its runtime died: {reason}", now)
        return True

    # --- what to do -------------------------------------------------------------------------------

    def spared(self, lane: Lane) -> set[str]:
        """Runtime kinds that get no batch: they rest, or load what may have killed them.

        A death while it loads and computes at once tells nothing; the next one must.
        """
        ending = ("resting", "stopping")
        kinds = {kind for kind, runtime in lane.runtimes.items() if runtime.state in ending}
        name = lane.loading or self._residency.next_load(lane)
        if name is not None and self._models[name].load_crashes:
            kinds.add(self._models[name].spec.kind)
        return kinds

    def decide(self, now: float) -> list[Instruction]:
        """Start the processes that the loads to come need, and the loads whose process is up."""
        out: list[Instruction] = []
        for lane in self._lanes.values():
            out += self._residency.fetch_for(lane)
            name = self._residency.next_load(lane)
            if lane.loading is None and name is not None:
                out += self._load(lane, name, now)
        return out + self._hanging.decide(now)

    def _load(self, lane: Lane, name: str, now: float) -> list[Instruction]:
        kind = self._models[name].spec.kind
        runtime = lane.runtimes.setdefault(kind, Runtime())
        if runtime.state == "up" and not (kind in self.spared(lane) and lane.computing(kind)):
            lane.to_load.remove(name)
            lane.loading = name
            return [Load(lane.id, name)]
        if runtime.state == "down" and (runtime.restart_at or 0.0) <= now:
            runtime.state, runtime.restart_at = "starting", None
            return [StartRuntime(lane.id, kind)]
        return []

    def next_wake(self) -> float | None:
        """When a process may be started again, or what may hang is looked at."""
        times = [self._hanging.next_wake()]
        for lane in self._lanes.values():
            name = self._residency.next_load(lane)
            if lane.loading is None and name is not None:  # until then none is started
                runtime = lane.runtimes.get(self._models[name].spec.kind)
                times.append(runtime.restart_at if runtime and runtime.state == "down" else None)
        return min((time for time in times if time is not None), default=None)
