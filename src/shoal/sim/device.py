"""One lane's runtime in virtual time: how long batches and loads truly take, and its crashes.

It computes one batch after the other, in the order they were sent, and loads beside them. It
reports to its worker as the runtime's socket does. Decides nothing.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from shoal.core import events as ev
from shoal.sim.clock import Clock
from shoal.sim.meter import Meter
from shoal.sim.scenario import Latency, Model, Noise

#: Seconds until a runtime process says hello; importing torch takes about that.
START_S = 2.0
#: Until one that was asked to stop has ended.
STOP_S = 0.5
#: Giving a model's memory back.
EVICT_S = 0.005
#: What a runtime process holds without any model.
PROCESS_BYTES = 300 << 20


class Device:
    """The runtime of lane `lane`; `emit` takes its events to the worker."""

    def __init__(
        self,
        lane: str,
        models: dict[str, Model],
        clock: Clock,
        random_: random.Random,
        noise: Noise,
        latency: Latency,
        meter: Meter,
        emit: Callable[[ev.Event], None],
    ) -> None:
        self._lane = lane
        self._models = models
        self._clock = clock
        self._random = random_
        self._noise = noise
        self._latency = latency
        self._meter = meter
        self._emit = emit
        self._life = 0  # of the process: what an earlier one was about to say is never heard
        self._free_at = 0.0
        self._load_at = 0.0
        self.held: dict[str, int] = {}

    def start(self, kind: str) -> None:
        """Start the process."""
        self._later(START_S, ev.RuntimeStarted(self._lane, kind))

    def stop(self) -> None:
        """The process is gone, without a word: its machine is."""
        self._life += 1
        self.held.clear()

    def crash(self, kind: str, reason: str) -> None:
        """The process dies and all it held with it."""
        self.stop()
        self._free_at = self._load_at = self._clock.now
        self._later(self._latency.socket_s, ev.RuntimeDied(self._lane, kind, reason))

    def end(self, kind: str) -> None:
        """End the process as it was asked to; all it held is free."""
        self.stop()
        self._later(STOP_S, ev.RuntimeStopped(self._lane, kind))

    def evict(self, name: str) -> None:
        """Give a model's memory back."""
        self.held.pop(name, None)
        self._meter.evictions += 1
        self._later(EVICT_S, ev.Evicted(self._lane, name))

    def tell_stats(self, kind: str) -> None:
        """Say what the process holds."""
        held = dict(self.held)
        stats = ev.StatsSeen(self._lane, kind, PROCESS_BYTES + sum(held.values()), held)
        self._later(2 * self._latency.socket_s, stats)

    def run(self, batch: ev.Run) -> None:
        """Compute a batch once those before it are done."""
        lengths = [item.tokens for item in batch.items]
        model = self._models[batch.model]
        begin = max(self._clock.now + self._latency.socket_s, self._free_at)
        squared = sum(n * n for n in lengths) if model.cost[2] else 0
        seconds = self._truly(model.batch_s(sum(lengths), squared, len(lengths)))
        self._free_at = begin + seconds
        self._meter.batch(begin, self._free_at, lengths)
        after_s = self._free_at + self._latency.socket_s - self._clock.now
        self._later(after_s, ev.Finished(self._lane, batch.batch, seconds))

    def load(self, name: str) -> None:
        """Load a model once those before it are loaded."""
        model = self._models[name]
        seconds = model.load_s * self._random.lognormvariate(0.0, self._noise.batch)
        self._load_at = max(self._clock.now, self._load_at) + seconds
        self._meter.loads += 1
        self._clock.at(self._load_at, self._loaded, self._life, model, seconds)

    def _loaded(self, life: int, model: Model, seconds: float) -> None:
        if life == self._life:
            self.held[model.name] = model.bytes
            self._emit(ev.Loaded(self._lane, model.name, model.bytes, seconds))

    def _truly(self, seconds: float) -> float:
        noise = self._noise
        if noise.batch:
            seconds *= math.exp(self._random.gauss(0.0, noise.batch))
        if noise.stall_share and self._random.random() < noise.stall_share:
            seconds += noise.stall_s
        return seconds

    def _later(self, after_s: float, event: ev.Event) -> None:
        self._clock.after(after_s, self._tell, self._life, event)

    def _tell(self, life: int, event: ev.Event) -> None:
        if life == self._life:
            self._emit(event)
