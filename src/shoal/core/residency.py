"""Which models are loaded where, and which runtime processes run.

Pinned models are loaded on every lane and reloaded after a crash. Others are loaded when a
gateway says that work waits for them. A load that failed, or took its runtime down too often, is
not tried again before its cooldown ends: then pinned models are, and others may be asked for.
Nothing is ever evicted here.
"""

from __future__ import annotations

from shoal.core.events import Instruction, Load, StartRuntime
from shoal.core.lanes import Lane, Runtime
from shoal.core.models import ModelState

#: Deaths of a runtime in a row, while it started or loaded a model, until that counts as the
#: model's failure: one may be an accident, and each costs the lane's other models a reload.
MAX_LOAD_CRASHES = 3


class Residency:
    """Loads and runtime processes of all lanes of a worker."""

    def __init__(
        self,
        lanes: dict[str, Lane],
        models: dict[str, ModelState],
        pinned: frozenset[str],
        cooldown_s: float,
    ) -> None:
        self._lanes = lanes
        self._models = models
        self._pinned = pinned
        self._cooldown_s = cooldown_s
        self._cooling: dict[str, ModelState] = {}
        for name in models:
            if name in pinned:
                self._want_everywhere(models[name])

    def _want_everywhere(self, model: ModelState) -> None:
        for lane in self._lanes.values():
            self.want(model, lane)

    def want(self, model: ModelState, lane: Lane) -> None:
        """Load `model` on `lane` as soon as its runtime is up."""
        if not lane.wants(model.spec.name):
            lane.to_load.append(model.spec.name)
            if model.state in ("absent", "failed"):
                model.state, model.reason = "loading", None

    def cool(self, now: float) -> None:
        """Let models whose cooldown is over be loaded again."""
        for name, model in list(self._cooling.items()):
            if now < model.failed_until:
                continue
            del self._cooling[name]
            if name in self._pinned:
                self._want_everywhere(model)
            elif model.state == "failed":
                model.state, model.reason = "absent", None

    def demanded(self, model: ModelState) -> None:
        """Work waits for `model` somewhere; load it here if it is not."""
        if model.state == "absent":
            lane = min(
                self._lanes.values(), key=lambda lane: len(lane.resident) + len(lane.to_load)
            )
            self.want(model, lane)

    def runtime_started(self, lane: Lane, kind: str, now: float) -> None:
        runtime = lane.runtimes[kind]
        runtime.state, runtime.started_at = "up", now

    def runtime_died(
        self, lane: Lane, kind: str, reason: str, now: float, *, computing: bool
    ) -> list[ModelState]:
        """Everything the process held is to be loaded again; returns the models given up."""
        runtime = lane.runtimes.setdefault(kind, Runtime())
        starting = runtime.state == "starting"
        runtime.died(now, computing=computing)
        lost = [name for name in lane.resident if self._models[name].spec.kind == kind]
        blamed = list(lane.to_load) if starting else []
        if lane.loading is not None and self._models[lane.loading].spec.kind == kind:
            lost.append(lane.loading)
            blamed = [lane.loading]
            lane.loading = None
        for name in lost:
            lane.resident.discard(name)
            lane.to_load.append(name)
            self._refresh(self._models[name])
        models = [self._models[name] for name in blamed if self._models[name].spec.kind == kind]
        return [model for model in models if self._gave_up(lane, model, reason, now)]

    def _gave_up(self, lane: Lane, model: ModelState, reason: str, now: float) -> bool:
        model.load_crashes += 1
        if model.load_crashes < MAX_LOAD_CRASHES:
            return False
        lane.to_load.remove(model.spec.name)
        self.load_failed(lane, model, f"its runtime died: {reason}", now)
        return True

    def loaded(self, lane: Lane, model: ModelState) -> None:
        lane.loading = None
        lane.resident.add(model.spec.name)
        model.state, model.reason, model.load_crashes = "resident", None, 0

    def evicted(self, lane: Lane, model: ModelState) -> None:
        """The runtime let go of it; it may be loaded again."""
        lane.resident.discard(model.spec.name)
        lane.leaving.discard(model.spec.name)
        if not any(lane.wants(model.spec.name) for lane in self._lanes.values()):
            model.state = "absent"

    def runtime_stopped(self, lane: Lane, kind: str, now: float) -> None:
        """It ended as it was told to: start it anew and load what it held."""
        runtime = lane.runtimes[kind]
        runtime.state, runtime.restart_at = "down", now
        for name in [name for name in lane.resident if self._models[name].spec.kind == kind]:
            lane.resident.discard(name)
            lane.leaving.discard(name)
            lane.to_load.append(name)
            self._refresh(self._models[name])

    def load_failed(self, lane: Lane, model: ModelState, reason: str, now: float) -> None:
        """Terminal for now: say why, and do not storm."""
        if lane.loading == model.spec.name:
            lane.loading = None
        model.reason, model.failed_until = reason, now + self._cooldown_s
        self._cooling[model.spec.name] = model
        self._refresh(model)
        if model.state != "resident":
            model.state = "failed"

    def _refresh(self, model: ModelState) -> None:
        if any(model.spec.name in lane.resident for lane in self._lanes.values()):
            model.state = "resident"
        else:
            model.state = "loading"

    def on_trial(self, lane: Lane) -> str | None:
        """The runtime kind that must be left alone while it loads what may have killed it.

        A death while it loads and computes at once tells nothing; the next one must.
        """
        name = lane.loading or (lane.to_load[0] if lane.to_load else None)
        if name is None or not self._models[name].load_crashes:
            return None
        return self._models[name].spec.kind

    def decide(self, now: float) -> list[Instruction]:
        """Start the runtimes that the loads to come need, and the loads whose runtime is up."""
        out: list[Instruction] = []
        for lane in self._lanes.values():
            if lane.loading is not None or not lane.to_load:
                continue
            kind = self._models[lane.to_load[0]].spec.kind
            runtime = lane.runtimes.setdefault(kind, Runtime())
            if runtime.state == "up":
                if self.on_trial(lane) == kind and lane.computing(kind):
                    continue
                lane.loading = lane.to_load.popleft()
                out.append(Load(lane.id, lane.loading))
            elif runtime.state == "down" and (runtime.restart_at or 0.0) <= now:
                runtime.state, runtime.restart_at = "starting", None
                out.append(StartRuntime(lane.id, kind))
        return out

    def next_wake(self) -> float | None:
        """When a runtime that died may be started again, or a cooldown ends."""
        times = [model.failed_until for model in self._cooling.values()]
        times += [
            runtime.restart_at
            for lane in self._lanes.values()
            if lane.to_load
            for runtime in lane.runtimes.values()
            if runtime.state == "down" and runtime.restart_at is not None
        ]
        return min(times, default=None)
