"""A gateway in virtual time: the real admission, and a shell that performs what it says."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from shoal.core import admission_events as ev
from shoal.core.admission import Admission
from shoal.settings import GatewaySettings
from shoal.sim.broker import Broker, Holder, Message
from shoal.sim.clock import Clock, Link
from shoal.sim.meter import Meter
from shoal.sim.residents import Residents
from shoal.sim.scenario import Model
from shoal.sim.unit import Unit
from shoal.sim.units import units_of
from shoal.sim.workload import Request

_SETTINGS = GatewaySettings()


class SimGateway:
    """One gateway process.

    `announce`: work waits for a model that had none. `cancel`: the callers of a request are gone.
    """

    def __init__(
        self,
        name: str,
        models: tuple[Model, ...],
        clock: Clock,
        link: Link,
        broker: Broker,
        residents: Residents,
        meter: Meter,
        timeout_s: float,
        announce: Callable[[SimGateway], None],
        cancel: Callable[[str], None],
    ) -> None:
        self.name = name
        self.machine = Admission(_SETTINGS.window_batches, _SETTINGS.max_queue_s)
        self._models = models
        self._clock = clock
        self._up = link
        self._broker = broker
        self._residents = residents
        self._meter = meter
        self._timeout_s = timeout_s
        self._announce = announce
        self._cancel = cancel
        self._requests = 0
        self._came: dict[str, float] = {}
        self._units: dict[str, Unit] = {}
        self._deadlines: deque[tuple[float, str]] = deque()

    def arrive(self, request: Request) -> None:
        """A request came over HTTP."""
        now = self._clock.now
        model = self._models[request.model]
        rate = self._residents.rate(model.name)
        self._requests += 1
        key = f"{self.name}-{self._requests}"
        units = units_of(key, request, model, rate, self._timeout_s, self)
        self._came[key] = now
        self._units.update((unit.id, unit) for unit in units)
        self._meter.arrived(now, resident=rate.lanes > 0)
        self._await_deadline(now + self._timeout_s, key)
        sizes = tuple(ev.UnitSize(unit.id, unit.bytes, len(unit.lengths)) for unit in units)
        self.handle(ev.Arrived(key, model.name, sizes, rate))

    def replied(self, message: Message, worker: Holder) -> None:
        """A whole answer came."""
        instructions = self.machine.handle(ev.Replied(message.body.id, ""), self._clock.now)
        for instruction in instructions:
            if type(instruction) is ev.Ack:
                self._up.send(self._broker.ack, message, worker)
        self._perform(instructions)

    def rated(self, model: str) -> None:
        """The lanes that hold a model are others than before."""
        self.handle(ev.Rated(model, self._residents.rate(model)))

    def handle(self, event: ev.Event) -> None:
        """Let admission react, and perform what it says."""
        self._perform(self.machine.handle(event, self._clock.now))

    def _perform(self, instructions: list[ev.Instruction]) -> None:
        for instruction in instructions:
            match instruction:
                case ev.Publish(unit_id):
                    unit = self._units[unit_id]
                    self._up.send(self._broker.publish, unit.model, unit, unit.timeout_s)
                case ev.Complete(request):
                    self._meter.done(self._came.pop(request), self._clock.now)
                case ev.Fail(request, error):
                    self._meter.fail(self._came.pop(request), error.code)
                case ev.Keep(unit_id):
                    del self._units[unit_id]
                case ev.Announce():
                    self._announce(self)
                case ev.Cancel(request):
                    self._cancel(request)
                case _:
                    pass  # Ack: above, where the delivery is known; Discard: nothing is kept here

    # --- deadlines --------------------------------------------------------------------------------

    def _await_deadline(self, at: float, key: str) -> None:
        if not self._deadlines:
            self._clock.at(at, self._expire)
        self._deadlines.append((at, key))

    def _expire(self) -> None:
        now = self._clock.now
        while self._deadlines and self._deadlines[0][0] <= now:
            _, key = self._deadlines.popleft()
            if key in self._came:
                self.handle(ev.DeadlinePassed(key))
        if self._deadlines:
            self._clock.at(self._deadlines[0][0], self._expire)
