"""Which runtime processes run, and the loads that were decided on: their order, crashes, cooldowns.

Pinned models are loaded on every lane and reloaded after a crash; what else is to be loaded or let
go is for `placement` to say. A load that failed, or took its runtime down too often, here or on
several other workers, is not tried again before its cooldown ends (`cooldowns`): then pinned models
are, and others may be asked for.
"""

from __future__ import annotations

from shoal.core.cooldowns import Cooldowns
from shoal.core.events import Instruction, Load, Loaded, PeerModel, StartRuntime
from shoal.core.fetching import Fetching
from shoal.core.hanging import Hanging
from shoal.core.lanes import Lane, Runtime
from shoal.core.memory import DEVICE_SHARE
from shoal.core.models import ModelState
from shoal.errors import ConfigError

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
        cooldowns: Cooldowns,
    ) -> None:
        self._lanes = lanes
        self._models = models
        self._pinned = pinned
        self._cooldowns = cooldowns
        self._cooling: dict[str, ModelState] = {}
        self._fetching = Fetching(models)
        self._hanging = Hanging(lanes, models)
        for lane in lanes.values():
            self._pin(lane)

    def _pin(self, lane: Lane) -> None:
        """Raises `ConfigError` if the pinned models are too large for the lane together."""
        models = [model for name, model in self._models.items() if name in self._pinned]
        for model in models:
            self.want(model, lane)
        if lane.memory.free < 0:
            raise ConfigError(
                f"models: {', '.join(f'{m.spec.name} ({_mb(m.footprint.bytes)})' for m in models)} "
                f"do not fit together on lane {lane.id}, whose memory_bytes are "
                f"{_mb(lane.memory.budget or 0)}; pin fewer, or raise memory_bytes"
            )

    def _want_again(self, model: ModelState) -> None:
        """A pinned model's cooldown is over: load it where there is room, or its place was kept.

        On other lanes `placement` makes room for it.
        """
        for lane in self._lanes.values():
            needs = lane.memory.needs(model.footprint)
            if model.spec.name in lane.memory.copies or needs <= lane.memory.free:
                self.want(model, lane)
        if model.state == "failed":
            model.state, model.reason = "absent", None

    def want(self, model: ModelState, lane: Lane) -> None:
        """Load `model` on `lane` as soon as its runtime is up; its bytes are reserved from now on."""
        name = model.spec.name
        if not lane.wants(name):
            lane.to_load.append(name)
            lane.memory.release(name)
            lane.memory.reserve(name, self._place(lane, model))
            if model.state in ("absent", "failed"):
                model.state, model.reason = "loading", None

    @staticmethod
    def _place(lane: Lane, model: ModelState) -> int:
        """Bytes to reserve; what is added to a mere guess takes no more than there is."""
        needs = lane.memory.needs(model.footprint)
        return max(model.footprint.bytes, min(needs, lane.memory.free))

    def cool(self, now: float) -> None:
        """Let models whose cooldown is over be loaded again."""
        for name, model in list(self._cooling.items()):
            if now >= model.failed_until:
                del self._cooling[name]
                self._try_again(model)

    def _try_again(self, model: ModelState) -> None:
        if model.spec.name in self._pinned:
            self._want_again(model)
        elif model.state == "failed":
            model.state, model.reason = "absent", None

    # --- runtime processes ------------------------------------------------------------------------

    def runtime_started(
        self, lane: Lane, kind: str, now: float, device_bytes: int = 0
    ) -> list[ModelState]:
        """The process is up, on a device of this size if it told; returns models that cannot fit."""
        runtime = lane.runtimes[kind]
        runtime.state, runtime.started_at = "up", now
        runtime.on_device = device_bytes > 0
        if lane.memory.budget is None and device_bytes > 0:
            lane.memory.budget = int(device_bytes * DEVICE_SHARE)
        refused: list[ModelState] = []
        for name in reversed(list(lane.to_load)):
            if lane.memory.free < 0:
                self.refuse(self._models[name], lane.memory.budget or 0, now, lane)
                refused.append(self._models[name])
        return refused

    def runtime_died(
        self, lane: Lane, kind: str, reason: str, now: float, *, computing: bool
    ) -> list[ModelState]:
        """Everything the process held is to be loaded again; returns the models given up."""
        runtime = lane.runtimes.setdefault(kind, Runtime())
        starting = runtime.state == "starting"
        runtime.died(now, computing=computing)
        blamed = list(lane.to_load) if starting else []
        if lane.loading is not None and self._models[lane.loading].spec.kind == kind:
            blamed = [lane.loading]
        self._lost(lane, kind)
        models = [self._models[name] for name in blamed if self._models[name].spec.kind == kind]
        return [model for model in models if self._gave_up(lane, model, reason, now)]

    def runtime_stopped(self, lane: Lane, kind: str, now: float) -> None:
        """It ended as it was told to: start it anew and load what it held."""
        lane.runtimes[kind].stopped(now)
        self._lost(lane, kind)

    def _lost(self, lane: Lane, kind: str) -> None:
        """The process is gone: what it was letting go is free, what it held is loaded again."""
        for name in self._of(kind, lane.evicting):
            self.evicted(lane, self._models[name])
        lost = self._of(kind, lane.resident)
        if lane.loading is not None and self._models[lane.loading].spec.kind == kind:
            lost.append(lane.loading)
            lane.loading = None
        for name in lost:
            lane.resident.discard(name)
            lane.leaving.discard(name)
            lane.to_load.append(name)
            self._refresh(self._models[name])

    def _of(self, kind: str, names: set[str]) -> list[str]:
        return [name for name in sorted(names) if self._models[name].spec.kind == kind]

    def _gave_up(self, lane: Lane, model: ModelState, reason: str, now: float) -> bool:
        model.load_crashes += 1
        if model.load_crashes < MAX_LOAD_CRASHES:
            return False
        self.load_failed(lane, model, f"its runtime died: {reason}", now)
        return True

    # --- models -----------------------------------------------------------------------------------

    def fetch(self, model: ModelState) -> list[Instruction]:
        """Have its files fetched, if they are not here."""
        out = self._fetching.ask(model.spec.name)
        if out and model.state == "absent":
            model.state, model.reason = "loading", None
        return out

    def has_files(self, model: str) -> bool:
        return self._fetching.here(model)

    def fetched(self, model: ModelState) -> None:
        """Its files are here."""
        self._fetching.fetched(model.spec.name)
        self._refresh(model)

    def fetch_failed(self, model: ModelState, reason: str, now: float) -> None:
        """Its files cannot be had: a load without them is not tried."""
        self._fetching.failed(model.spec.name)
        for lane in self._lanes.values():
            if model.spec.name in lane.to_load:
                self._drop(lane, model)
        self._failed(model, reason, now)

    def loaded(self, lane: Lane, model: ModelState, event: Loaded, now: float) -> None:
        """It is resident: what was measured counts from now on."""
        lane.loading = None
        lane.resident.add(model.spec.name)
        lane.memory.loaded(model.spec.name, event.bytes, now)
        model.footprint.loaded(event.bytes, event.seconds)
        model.state, model.reason, model.load_crashes, model.failures = "resident", None, 0, 0
        self._cooldowns.well(model.spec.name)

    def load_failed(
        self, lane: Lane, model: ModelState, reason: str, now: float, *, fits: bool = True
    ) -> None:
        """Terminal for now: say why, and do not storm.

        What does not `fit` is this worker's own trouble: another may have larger lanes.
        """
        self._drop(lane, model, fits=fits)
        if fits:
            self._failed(model, reason, now)
        else:
            self._hold(model, reason, now + self._cooldowns.base_s)

    def _drop(self, lane: Lane, model: ModelState, *, fits: bool = True) -> None:
        """It will not come; a pinned model that fits keeps its place."""
        name = model.spec.name
        if lane.loading == name:
            lane.loading = None
        if name in lane.to_load:
            lane.to_load.remove(name)
        stays = name in lane.resident or name in lane.evicting or (fits and name in self._pinned)
        if not stays:
            lane.memory.release(name)

    def told(
        self, worker: str, model: ModelState, told: PeerModel, now: float, *, elsewhere: bool
    ) -> None:
        """Another worker has the model, or could not load it: that may end or begin a cooldown.

        `elsewhere`: whether any has it, or is at it.
        """
        name = model.spec.name
        if told.state == "resident":
            if self._cooldowns.well(name) and self._cooling.pop(name, None) is not None:
                self._try_again(model)
        elif told.state == "failed" and told.failures:
            until = self._cooldowns.heard(name, worker, told.failures, now)
            if until is not None and not elsewhere and model.state in ("absent", "failed"):
                self._hold(model, model.reason or told.reason or "no reason given", until)

    def _failed(self, model: ModelState, reason: str, now: float) -> None:
        model.failures += 1
        self._hold(model, reason, self._cooldowns.failed(model.spec.name, model.failures, now))

    def _hold(self, model: ModelState, reason: str, until: float) -> None:
        """It is not to be tried before."""
        model.reason, model.failed_until = reason, until
        self._cooling[model.spec.name] = model
        self._refresh(model)
        if model.state != "resident":
            model.state = "failed"

    def put_off(self, lane: Lane, model: ModelState) -> None:
        """There is no room for it now; it may be wanted again."""
        lane.loading = None
        lane.memory.release(model.spec.name)
        self._refresh(model)

    def refuse(self, model: ModelState, budget: int, now: float, lane: Lane) -> None:
        """It fits on no lane, or not beside what has to stay: say so with both sizes."""
        source = "holds" if model.footprint.sure else "is estimated to hold"
        reason = (
            f"it {source} {_mb(model.footprint.bytes)} and lane {lane.id} has {_mb(budget)} for it "
            f"(memory_bytes {_mb(lane.memory.budget or 0)} less what is pinned or kept by min_replicas); raise memory_bytes, "
            "or correct memory.weights_mb of its card"
        )
        self.load_failed(lane, model, reason, now, fits=False)

    def evicted(self, lane: Lane, model: ModelState) -> None:
        """The runtime let go of it; it may be loaded again."""
        lane.resident.discard(model.spec.name)
        lane.leaving.discard(model.spec.name)
        lane.evicting.discard(model.spec.name)
        lane.starved = lane.starved and bool(lane.evicting)
        if not lane.wants(model.spec.name):
            lane.memory.release(model.spec.name)
        if model.state != "failed":
            self._refresh(model)

    def _refresh(self, model: ModelState) -> None:
        name = model.spec.name
        if any(name in lane.resident for lane in self._lanes.values()):
            model.state = "resident"
        elif self._fetching.coming(name) or any(o.wants(name) for o in self._lanes.values()):
            model.state = "loading"
        else:
            model.state = "absent"

    # --- what to do -------------------------------------------------------------------------------

    def spared(self, lane: Lane) -> set[str]:
        """Runtime kinds that get no batch: they rest, or load what may have killed them.

        A death while it loads and computes at once tells nothing; the next one must.
        """
        ending = ("resting", "stopping")
        kinds = {kind for kind, runtime in lane.runtimes.items() if runtime.state in ending}
        name = lane.loading or self._next(lane)
        if name is not None and self._models[name].load_crashes:
            kinds.add(self._models[name].spec.kind)
        return kinds

    def decide(self, now: float) -> list[Instruction]:
        """Start the runtimes that the loads to come need, and the loads whose runtime is up."""
        out: list[Instruction] = []
        for lane in self._lanes.values():
            out += [i for name in lane.to_load for i in self.fetch(self._models[name])]
            name = self._next(lane)
            if lane.loading is not None or name is None:
                continue
            kind = self._models[name].spec.kind
            runtime = lane.runtimes.setdefault(kind, Runtime())
            if runtime.state == "up":
                if kind in self.spared(lane) and lane.computing(kind):
                    continue
                lane.to_load.remove(name)
                lane.loading = name
                out.append(Load(lane.id, name))
            elif runtime.state == "down" and (runtime.restart_at or 0.0) <= now:
                runtime.state, runtime.restart_at = "starting", None
                out.append(StartRuntime(lane.id, kind))
        return out + self._hanging.decide(now)

    def _next(self, lane: Lane) -> str | None:
        """What the lane is to load next: the first whose files are here."""
        return next((name for name in lane.to_load if self._fetching.here(name)), None)

    def next_wake(self) -> float | None:
        """When a runtime may be started again, a cooldown ends, or what may hang is looked at."""
        times = [model.failed_until for model in self._cooling.values()]
        if (look_at := self._hanging.next_wake()) is not None:
            times.append(look_at)
        for lane in self._lanes.values():
            name = self._next(lane)
            if lane.loading is not None or name is None:
                continue  # as in `decide`: until that is over, no runtime is started
            runtime = lane.runtimes.get(self._models[name].spec.kind)
            if runtime and runtime.state == "down" and runtime.restart_at is not None:
                times.append(runtime.restart_at)
        return min(times, default=None)


def _mb(bytes_: int) -> str:
    return f"{bytes_ / 1e6:.0f} MB"
