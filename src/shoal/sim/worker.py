"""A worker in virtual time: the real core, and a shell that performs what it says.

The shell is `worker/loop` with virtual parts: a preparing thread, devices, a queue. Like it, it
decides nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Protocol

from shoal.core import events as ev
from shoal.core.config import WorkerConfig
from shoal.core.worker import WorkerCore
from shoal.sim.broker import Message, PullEnd
from shoal.sim.clock import Clock, Link
from shoal.sim.device import Device
from shoal.sim.meter import Meter
from shoal.sim.preparing import Preparing
from shoal.sim.scenario import Latency, Model, Noise
from shoal.sim.unit import Unit

#: As `worker.loop`: standing pulls are renewed this often.
STANDING_PULL_S = 30.0
Perform = Callable[[Any], object]


class Queue(Protocol):
    """What a worker may ask of the broker, sent over the worker's `up` link."""

    def pull(
        self, worker: SimWorker, pull: int, model: str, count: int, expires_s: float | None
    ) -> None: ...

    def withdraw(self, worker: SimWorker, pull: int) -> None: ...

    def listen(self, worker: SimWorker) -> None: ...

    def tell(self, worker: SimWorker, told: ev.TellPulled) -> None: ...

    def nak(self, worker: SimWorker, message: Message, delay_s: float) -> None: ...

    def term(self, worker: SimWorker, message: Message) -> None: ...

    def reply(self, worker: SimWorker, message: Message) -> None: ...

    def claim(self, worker: SimWorker, model: str, ttl_s: float) -> None: ...

    def unclaim(self, worker: SimWorker, model: str) -> None: ...


class Parts:
    """What all workers of a world share."""

    def __init__(
        self,
        clock: Clock,
        random_: random.Random,
        models: dict[str, Model],
        noise: Noise,
        latency: Latency,
        meter: Meter,
        queue: Queue,
    ) -> None:
        self.clock = clock
        self.random = random_
        self.models = models
        self.noise = noise
        self.latency = latency
        self.meter = meter
        self.queue = queue

    def link(self) -> Link:
        """One direction of a connection to the broker."""
        return Link(self.clock, self.random, self.latency.hop_s, self.latency.hop_mean_s)


class SimWorker:
    """One worker process; `alive` until it is killed."""

    def __init__(self, name: str, config: WorkerConfig, parts: Parts) -> None:
        self.name = name
        self.alive = True
        self.core = WorkerCore(config)
        self.up, self.down = parts.link(), parts.link()
        self._parts = parts
        self._clock = parts.clock
        self._queue = parts.queue
        self._held: dict[str, Message] = {}
        self._timer_at = float("inf")
        self._deciding = False
        self._preparing = Preparing(parts.clock, parts.latency, self.emit)
        self.devices = {lane: self._device(lane) for lane in config.lanes}
        self._perform: dict[type, Perform] = self._performers()
        parts.queue.listen(self)

    def _device(self, lane: str) -> Device:
        parts = self._parts
        return Device(
            lane,
            parts.models,
            parts.clock,
            parts.random,
            parts.noise,
            parts.latency,
            parts.meter,
            self.emit,
        )

    def die(self) -> None:
        """The machine is gone: nothing it was about to say is heard."""
        self.alive = False
        for device in self.devices.values():
            device.stop()

    def tells(self) -> dict[str, ev.PeerModel]:
        """What its pulse says of its models."""
        return {
            name: ev.PeerModel(
                state=model.state,
                lanes=sum(name in lane.resident for lane in self.core.lanes.values()),
                bytes=self._parts.models[name].bytes,
                load_s=self._parts.models[name].load_s,
            )
            for name, model in self.core.models.items()
            if model.state != "absent"
        }

    # --- events in --------------------------------------------------------------------------------

    def emit(self, event: ev.Event) -> None:
        """Let the core react; it decides once all that comes at this time was told."""
        if not self.alive:
            return
        self._perform_all(self.core.react(event, self._clock.now))
        if not self._deciding:
            self._deciding = True
            self._clock.soon(self._decide)

    def _decide(self) -> None:
        self._deciding = False
        if not self.alive:
            return
        now = self._clock.now
        self._perform_all(self.core.decide(now))
        at = self.core.next_wake(now)
        if at is not None and at < self._timer_at:
            self._timer_at = at
            self._clock.at(at, self._ring, at)

    def _perform_all(self, instructions: list[ev.Instruction]) -> None:
        for instruction in instructions:
            self._perform[type(instruction)](instruction)

    def _ring(self, at: float) -> None:
        if at == self._timer_at:
            self._timer_at = float("inf")
            self._decide()

    def delivered(self, pull: int, message: Message, pending: int, filled: bool) -> None:
        """A unit came from the queue."""
        if not self.alive:
            return
        unit = message.body
        self._held[unit.id] = message
        meter = self._parts.meter
        meter.peak_held = max(meter.peak_held, len(self._held))
        longest = self.core.models[unit.model].spec.max_tokens
        head = unit.head(longest, message.stored_at, message.deliveries)
        self.emit(ev.Arrived(head, pull, pending))
        if filled:
            self.emit(ev.PullEnded(pull))

    def pull_ended(self, pull: int, reason: PullEnd) -> None:
        """The broker ended a pull."""
        self.emit(ev.PullEnded(pull, found_all=reason in ("empty", "expired")))

    def settled(self, message: Message) -> None:
        """The gateway acked a unit."""
        self.emit(ev.Settled(message.body.id))

    # --- instructions out -------------------------------------------------------------------------

    def _performers(self) -> dict[type, Perform]:
        return {
            ev.Pull: self._pull,
            ev.Withdraw: lambda i: self._queue.withdraw(self, i.pull),
            ev.TellPulled: lambda i: self._queue.tell(self, i),
            ev.Prepare: lambda i: self._preparing.submit(self._unit(i.unit)),
            ev.Run: lambda i: self.devices[i.lane].run(i),
            ev.Reply: lambda i: self._queue.reply(self, self._held[i.unit]),
            ev.Fail: lambda i: self._queue.reply(self, self._held[i.unit]),
            ev.FailItem: lambda i: None,
            ev.Return: lambda i: self._queue.nak(self, self._held.pop(i.unit), i.delay_s),
            ev.Terminate: lambda i: self._queue.term(self, self._held.pop(i.unit)),
            ev.Forget: lambda i: self._held.pop(i.unit),
            ev.StartRuntime: lambda i: self.devices[i.lane].start(i.kind),
            ev.KillRuntime: lambda i: self.devices[i.lane].crash(i.kind, "killed"),
            ev.StopRuntime: lambda i: self.devices[i.lane].end(i.kind),
            ev.AskStats: lambda i: self.devices[i.lane].tell_stats(i.kind),
            ev.AskProcessor: lambda i: None,  # a simulated process uses none
            ev.Load: lambda i: self.devices[i.lane].load(i.model),
            ev.Evict: lambda i: self.devices[i.lane].evict(i.model),
            ev.Claim: lambda i: self._queue.claim(self, i.model, i.ttl_s),
            ev.Unclaim: lambda i: self._queue.unclaim(self, i.model),
        }

    def _pull(self, pull: ev.Pull) -> None:
        expires_s = STANDING_PULL_S if pull.standing else None
        self._queue.pull(self, pull.pull, pull.model, pull.count, expires_s)

    def _unit(self, unit: str) -> Unit:
        return self._held[unit].body
