"""Which models are loaded where, and which runtime processes run.

Pinned models are loaded on every lane and reloaded after a crash. Others are loaded when a
gateway says that work waits for them. A load that failed is not tried again before its cooldown
ends. What must be evicted to make room is decided elsewhere; here nothing is ever evicted.
"""

from __future__ import annotations

from shoal.core.events import Instruction, Load, StartRuntime
from shoal.core.lanes import Lane, Runtime
from shoal.core.models import ModelState


class Residency:
    """Loads and runtime processes of all lanes of a worker."""

    def __init__(
        self, lanes: dict[str, Lane], models: dict[str, ModelState], cooldown_s: float
    ) -> None:
        self._lanes = lanes
        self._models = models
        self._cooldown_s = cooldown_s

    def want(self, model: ModelState, lane: Lane) -> None:
        """Load `model` on `lane` as soon as its runtime is up."""
        if not lane.wants(model.spec.name):
            lane.to_load.append(model.spec.name)
            if model.state in ("absent", "failed"):
                model.state, model.reason = "loading", None

    def demanded(self, model: ModelState, now: float) -> None:
        """Work waits for `model` somewhere; load it here if it is not."""
        if model.state == "absent" or (model.state == "failed" and now >= model.failed_until):
            lane = min(
                self._lanes.values(), key=lambda lane: len(lane.resident) + len(lane.to_load)
            )
            self.want(model, lane)

    def runtime_started(self, lane: Lane, kind: str, now: float) -> None:
        runtime = lane.runtimes[kind]
        runtime.state, runtime.started_at = "up", now

    def runtime_died(self, lane: Lane, kind: str, now: float) -> None:
        """Everything the process held is gone; it is to be loaded again."""
        runtime = lane.runtimes.setdefault(kind, Runtime(kind))
        runtime.died(now)
        lost = [name for name in lane.resident if self._models[name].spec.kind == kind]
        if lane.loading is not None and self._models[lane.loading].spec.kind == kind:
            lost.append(lane.loading)
            lane.loading = None
        for name in lost:
            lane.resident.discard(name)
            lane.to_load.append(name)
            self._refresh(self._models[name])

    def loaded(self, lane: Lane, model: ModelState) -> None:
        lane.loading = None
        lane.resident.add(model.spec.name)
        model.state, model.reason = "resident", None

    def load_failed(self, lane: Lane, model: ModelState, reason: str, now: float) -> None:
        """Terminal for now: say why, and do not storm."""
        if lane.loading == model.spec.name:
            lane.loading = None
        model.reason, model.failed_until = reason, now + self._cooldown_s
        self._refresh(model)
        if model.state != "resident":
            model.state = "failed"

    def _refresh(self, model: ModelState) -> None:
        if any(model.spec.name in lane.resident for lane in self._lanes.values()):
            model.state = "resident"
        else:
            model.state = "loading"

    def decide(self, now: float) -> list[Instruction]:
        """Start the runtimes that the loads to come need, and the loads whose runtime is up."""
        out: list[Instruction] = []
        for lane in self._lanes.values():
            if lane.loading is not None or not lane.to_load:
                continue
            kind = self._models[lane.to_load[0]].spec.kind
            runtime = lane.runtimes.setdefault(kind, Runtime(kind))
            if runtime.state == "up":
                lane.loading = lane.to_load.popleft()
                out.append(Load(lane.id, lane.loading))
            elif runtime.state == "down" and (runtime.restart_at or 0.0) <= now:
                runtime.state, runtime.restart_at = "starting", None
                out.append(StartRuntime(lane.id, kind))
        return out

    def next_wake(self) -> float | None:
        """When a runtime that died may be started again."""
        times = [
            runtime.restart_at
            for lane in self._lanes.values()
            if lane.to_load
            for runtime in lane.runtimes.values()
            if runtime.state == "down" and runtime.restart_at is not None
        ]
        return min(times, default=None)
