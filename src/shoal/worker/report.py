"""What a worker tells others of itself: its pulse on the broker, and whether it is ready.

Readiness rests on a forward pass: a batch that finished lately, or a probe straight to the
runtime, never through the queue.
"""

from __future__ import annotations

import asyncio
import contextlib
import time

from shoal.broker.base import Bus
from shoal.core.lanes import Lane
from shoal.core.pulsing import PULSE_S, Rhythm
from shoal.core.worker import WorkerCore
from shoal.errors import ShoalError, Unavailable
from shoal.wire import subjects
from shoal.wire.codec import encode
from shoal.wire.queue import LaneMemory, ModelPulse, WorkerPulse
from shoal.worker.lanes import Lanes
from shoal.worker.watch import Watch

#: A batch that finished this long ago still proves that the device computes.
RECENT_S = 10.0
PROBE_S = 5.0


class Report:
    """Pulse and readiness of one worker."""

    def __init__(
        self, core: WorkerCore, lanes: Lanes, watch: Watch, bus: Bus, identity: WorkerPulse
    ) -> None:
        self._core = core
        self._lanes = lanes
        self._watch = watch
        self._bus = bus
        self._identity = identity
        self._unready: list[str] = ["starting"]
        self._rhythm = Rhythm()

    async def pulse_forever(self) -> None:
        """Look at each period how this worker is, and publish that; a lost pulse costs a period."""
        while True:
            self.look()
            await asyncio.sleep(PULSE_S)

    async def probe_forever(self) -> None:
        """Keep the readiness that pulses carry fresh."""
        while True:
            self._unready = await self.missing()
            self.look()
            await asyncio.sleep(PULSE_S if self._unready else RECENT_S / 2)

    def look(self) -> None:
        """Measure how this worker is, and publish it where that is due."""
        self._watch.failures()
        self._watch.metrics.units_held(len(self._core.units))
        self._watch.metrics.broker_connected(self._bus.connected)
        resident = [m for m in self._core.models.values() if m.state == "resident"]
        self._watch.metrics.resident_models(len(resident))
        memory = {name: self._memory(lane) for name, lane in self._core.lanes.items()}
        now = time.monotonic()
        strange = {
            name: ModelPulse("failed", 0, 0.0, 0.0, reason=said.reason, again_s=said.until - now)
            for name, said in self._core.strangers(now).items()
        }
        if self._rhythm.due(self._news(set(strange)), self._core.workers, now):
            self._publish(memory, strange)

    @property
    def _ready(self) -> bool:
        return not self._unready and not self._core.draining

    def _news(self, strange: set[str]) -> tuple[object, ...]:
        """What others must hear at once if it is other than it was."""
        models = {
            name: (model.state, self._lanes_of(name), model.failures)
            for name, model in self._core.models.items()
        }
        return models, strange, self._core.draining, self._ready

    def _lanes_of(self, model: str) -> int:
        return sum(model in lane.resident for lane in self._core.lanes.values())

    def _publish(self, memory: dict[str, LaneMemory], strange: dict[str, ModelPulse]) -> None:
        pulse = WorkerPulse(
            self._identity.worker,
            self._identity.pool,
            self._identity.host,
            self._identity.lanes,
            strange
            | {
                name: self._model(name)
                for name, model in self._core.models.items()
                if model.state != "absent"
            },
            len(self._core.units),
            self._core.draining,
            self._ready,
            memory,
        )
        subject = f"{subjects.WORKER_PULSES}.{subjects.token(pulse.worker)}"
        with contextlib.suppress(Unavailable):
            self._bus.publish(subject, encode(pulse))

    def _model(self, name: str) -> ModelPulse:
        model = self._core.models[name]
        most_tokens = model.spec.max_tokens
        token_s, item_s = model.cost.line(most_tokens)
        return ModelPulse(
            model.state,
            self._lanes_of(name),
            token_s / self._watch.bytes_per_token(name),
            item_s,
            model.waiting_s,
            model.reason,
            model.cost.item_s(most_tokens),
            model.footprint.bytes if model.footprint.measured else 0,
            model.footprint.load_s if model.footprint.measured else 0.0,
            name in self._core.pinned,
            model.batch_s if model.spec.sequences else model.spec.budget.seconds,
            model.failures,
            model.unserved,
            max(0.0, model.failed_until - time.monotonic()) if model.state == "failed" else 0.0,
            model.spec.kind,
            model.cost.new_token_s,
            model.cost.new_tokens,
        )

    def _memory(self, lane: Lane) -> LaneMemory:
        rss = sum(runtime.rss_bytes for runtime in lane.runtimes.values())
        memory = LaneMemory(lane.memory.used, lane.memory.budget or 0, rss)
        self._watch.metrics.lane_memory(
            lane.id,
            held=memory.held_bytes,
            most=lane.memory.most,
            budget=memory.budget_bytes,
            rss=rss,
        )
        return memory

    async def missing(self) -> list[str]:
        """What keeps this worker from being ready; empty when it is."""
        missing = [] if self._bus.connected else ["broker: not connected"]
        if self._core.draining:
            missing.append("draining")
        checks = [self._lane_missing(lane) for lane in self._core.lanes.values()]
        return missing + [why for whys in await asyncio.gather(*checks) for why in whys]

    async def _lane_missing(self, lane: Lane) -> list[str]:
        waiting = [*([lane.loading] if lane.loading else []), *lane.to_load]
        pinned = [name for name in waiting if name in self._core.pinned]
        if pinned:
            return [f"lane {lane.id}: loading {', '.join(pinned)}"]
        failed = [f"model {n}: {self._core.models[n].reason}" for n in self._core.pinned_failed()]
        if failed or not lane.resident:
            return failed
        return await self._probe(lane)

    async def _probe(self, lane: Lane) -> list[str]:
        if time.monotonic() - self._lanes.computed_at(lane.id) < RECENT_S:
            return []
        model = min(lane.resident)
        try:
            async with asyncio.timeout(PROBE_S):
                await self._lanes.probe(lane.id, model)
        except TimeoutError:
            if time.monotonic() - self._lanes.computed_at(lane.id) < RECENT_S:
                return []
            return [f"lane {lane.id}: no forward pass of {model} within {PROBE_S:g} s"]
        except ShoalError as error:  # what a probe asks may be nothing that this model does
            return [f"lane {lane.id}: {error.message}"]
        return []
