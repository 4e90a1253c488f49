"""The loads that were decided on: their order, how they ended, their cooldowns, the state of each model.

Pinned models are loaded on every lane and reloaded after a crash; what else is to be loaded or let
go is for `placement` to say. A load that failed, or took its runtime down too often, here or on
several other workers, is not tried again before its cooldown ends (`cooldowns`): then pinned models
are, and others may be asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from shoal.core.cooldowns import Cooldowns
from shoal.core.events import FetchFailed, Instruction, Loaded, PeerSeen
from shoal.core.fetching import Fetching
from shoal.core.lanes import Lane
from shoal.core.models import ModelState
from shoal.errors import ConfigError


class Residency:
    """What is loaded, and to be loaded, on the lanes of a worker."""

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
            self._reserve(lane, model)
            if model.state in ("absent", "failed"):
                model.state, model.reason = "loading", None

    @staticmethod
    def _reserve(lane: Lane, model: ModelState) -> None:
        """Keep its place; what is added to a mere guess takes no more than there is."""
        memory, name = lane.memory, model.spec.name
        memory.release(name)
        needs = memory.needs(model.footprint)
        memory.reserve(name, max(model.footprint.bytes, min(needs, memory.free)))

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

    def fetch(self, model: ModelState) -> list[Instruction]:
        """Have its files fetched, if they are not here."""
        out = self._fetching.ask(model.spec.name)
        if out and model.state == "absent":
            model.state, model.reason = "loading", None
        return out

    def fetch_for(self, lane: Lane) -> list[Instruction]:
        """Have the files fetched of all that the lane is to load."""
        if self._fetching.complete:
            return []
        return [i for name in lane.to_load for i in self.fetch(self._models[name])]

    def has_files(self, model: str) -> bool:
        return self._fetching.here(model)

    def fetched(self, model: ModelState, bytes_: int, now: float) -> None:
        """Its files are here, and tell what it will hold: what is too large is not loaded first."""
        self._fetching.fetched(model.spec.name)
        model.footprint.fetched(bytes_)
        self._refresh(model)
        for lane in self._lanes.values():
            if model.spec.name in lane.to_load:
                self._reserve(lane, model)
                self.refuse_misfits(lane, [model], now)

    def refuse_misfits(
        self, lane: Lane, models: Iterable[ModelState], now: float
    ) -> list[ModelState]:
        """Of these, which the lane is to load, those that have no room beside the others."""
        refused = []
        for model in models:
            over = -lane.memory.free
            if over > 0:
                room = lane.memory.copies[model.spec.name].bytes - over
                self.refuse(model, max(0, room), now, lane)
                refused.append(model)
        return refused

    def fetch_failed(self, model: ModelState, event: FetchFailed, now: float) -> None:
        """Its files, or the packages of its runtime, cannot be had: a load without them is not tried."""
        self._fetching.failed(model.spec.name)
        for lane in self._lanes.values():
            if model.spec.name in lane.to_load:
                self._drop(lane, model)
        if event.unserved:
            self._hold(model, event.reason, now + self._cooldowns.base_s)
            model.unserved = True
        else:
            self._failed(model, event.reason, now)

    def next_load(self, lane: Lane) -> str | None:
        """What the lane is to load next: the first whose files are here."""
        return next((name for name in lane.to_load if self._fetching.here(name)), None)

    def loaded(self, lane: Lane, model: ModelState, event: Loaded, now: float) -> None:
        """It is resident: what was measured counts from now on."""
        lane.loading = None
        lane.resident.add(model.spec.name)
        lane.memory.loaded(model.spec.name, event.bytes, now)
        model.footprint.loaded(event.bytes, event.seconds)
        model.state, model.reason, model.load_crashes, model.failures = "resident", None, 0, 0
        self._cooldowns.well(model.spec.name)

    def lost(self, lane: Lane, model: ModelState) -> None:
        """Its process is gone, or was before it was loaded: load it again."""
        if lane.loading == model.spec.name:
            lane.loading = None
        lane.resident.discard(model.spec.name)
        lane.leaving.discard(model.spec.name)
        lane.to_load.append(model.spec.name)
        self._refresh(model)

    def load_failed(
        self, lane: Lane, model: ModelState, reason: str, now: float, *, full: bool = False
    ) -> None:
        """Terminal for now: say why, and do not storm.

        That it was `full` is this worker's own trouble: another may have larger lanes.
        """
        self._drop(lane, model)
        if full:
            self._hold(model, reason, now + self._cooldowns.base_s)
        else:
            self._failed(model, reason, now)

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

    def told(self, event: PeerSeen, elsewhere: Callable[[str], int], now: float) -> None:
        """What another worker has, or could not load, may end or begin cooldowns.

        `elsewhere`: lanes that have a model, or are at it.
        """
        troubled = bool(self._cooldowns)
        for name, told in event.models.items():
            if told.state == "resident":
                if troubled and name in self._models:
                    self._well(self._models[name])
            elif told.state == "failed" and told.failures and name in self._models:
                until = self._cooldowns.heard(name, event.worker, told.failures, now)
                model = self._models[name]
                if (
                    until is not None
                    and not elsewhere(name)
                    and model.state in ("absent", "failed")
                ):
                    self._hold(model, model.reason or told.reason or "no reason given", until)

    def mended(self, model: ModelState) -> None:
        """Its files are others than those that could not be loaded: that says nothing of these."""
        if self._cooling.pop(model.spec.name, None) is not None:
            self._cooldowns.well(model.spec.name)
            self._try_again(model)

    def _well(self, model: ModelState) -> None:
        name = model.spec.name
        if self._cooldowns.well(name) and self._cooling.pop(name, None) is not None:
            self._try_again(model)

    def peers_gone(self, workers: Iterable[str]) -> None:
        """They left the pool, or were not heard of for too long."""
        for worker in workers:
            self._cooldowns.gone(worker)

    def _failed(self, model: ModelState, reason: str, now: float) -> None:
        model.failures += 1
        self._hold(model, reason, self._cooldowns.failed(model.spec.name, model.failures, now))

    def _hold(self, model: ModelState, reason: str, until: float) -> None:
        """It is not to be tried before."""
        model.reason, model.failed_until, model.unserved = reason, until, False
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
            f"(memory_bytes {_mb(lane.memory.budget or 0)} less what is pinned or kept by "
            "min_replicas); raise memory_bytes, or correct memory.weights_mb of its card"
        )
        self._drop(lane, model, fits=False)
        self._hold(model, reason, now + self._cooldowns.base_s)

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

    def next_wake(self) -> float | None:
        """When the next cooldown ends."""
        return min((model.failed_until for model in self._cooling.values()), default=None)


def _mb(bytes_: int) -> str:
    return f"{bytes_ / 1e6:.0f} MB"
