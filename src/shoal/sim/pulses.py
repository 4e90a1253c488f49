"""What processes tell each other periodically: demand, and where models are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from shoal.core import admission_events as admission
from shoal.core import events as ev
from shoal.core.pulsing import PULSE_S, Rhythm
from shoal.gateway.service import BUSY_PULSE_S, LEAST_PULSE_S
from shoal.sim.clock import Clock
from shoal.sim.gateway import SimGateway
from shoal.sim.residents import Residents
from shoal.sim.scenario import Latency
from shoal.sim.worker import SimWorker

#: A worker that was silent for this long is taken for gone; several periods of a pulse.
SILENT_S = 5.0

T = TypeVar("T")


class Pulses:
    """Pulses of all gateways and workers. A pulse takes two hops, to all hearers at once.

    `moving`: whether models are loaded and evicted. Where all are resident everywhere, a worker's
    pulse would say the same each time: it is heard once.
    """

    def __init__(
        self,
        clock: Clock,
        latency: Latency,
        gateways: list[SimGateway],
        workers: list[SimWorker],
        residents: Residents,
        *,
        moving: bool,
    ) -> None:
        self._clock = clock
        self._delay_s = 2 * latency.hop_mean_s
        self._gateways = gateways
        self._workers = workers
        self._residents = residents
        self._moving = moving
        self._told_at = {gateway.name: float("-inf") for gateway in gateways}
        self._announcing: set[str] = set()

    def begin(self) -> None:
        """Start the periods: workers and gateways one after the other, gateways' ears together."""
        self._sweep()
        _spread(self._clock, BUSY_PULSE_S, self._gateways, self._gateway_period)
        workers = self._workers
        if self._moving:
            looked = [(number, Rhythm()) for number in range(len(workers))]
            _spread(self._clock, PULSE_S, looked, self._look)
            return
        for worker in workers:
            self._hear(_pulse(worker), worker.name)

    def greet(self, number: int) -> None:
        """A worker that is new hears what others have."""
        new = self._workers[number]
        for other in self._workers:
            if other.alive and other is not new:
                new.emit(_pulse(other))

    def _sweep(self) -> None:
        changed = self._residents.heard(self._workers)
        for gateway in self._gateways:
            for model in changed:
                gateway.rated(model)
        self._clock.after(PULSE_S, self._sweep)

    # --- gateways ---------------------------------------------------------------------------------

    def _gateway_period(self, gateway: SimGateway) -> None:
        self._demand(gateway)
        self._clock.after(BUSY_PULSE_S, self._gateway_period, gateway)

    def announce(self, gateway: SimGateway) -> None:
        """A gateway is to tell at once what waits in it, unless it has just told."""
        if gateway.name not in self._announcing:
            self._announcing.add(gateway.name)
            at = self._told_at[gateway.name] + LEAST_PULSE_S
            self._clock.at(at, self._demand, gateway)

    def _demand(self, gateway: SimGateway) -> None:
        """A gateway tells what waits in it: the other gateways, and workers that may load."""
        self._told_at[gateway.name] = self._clock.now
        self._announcing.discard(gateway.name)
        told = gateway.machine.outstanding()
        heard = admission.PeerHeard(gateway.name, told)
        self._clock.after(self._delay_s, self._peer_heard, heard)
        if self._moving:
            seen = ev.DemandSeen(gateway.name, told.outstanding_s, told.bulk_s)
            self._clock.after(self._delay_s, self._hear, seen, "")

    def _peer_heard(self, heard: admission.PeerHeard) -> None:
        for gateway in self._gateways:
            if gateway.name != heard.gateway:
                gateway.handle(heard)

    def _hear(self, event: ev.Event, but: str) -> None:
        for worker in self._workers:
            if worker.name != but:
                worker.emit(event)

    # --- workers ----------------------------------------------------------------------------------

    def _look(self, of: tuple[int, Rhythm]) -> None:
        number, rhythm = of
        worker = self._workers[number]
        if worker.alive:
            pulse = _pulse(worker)
            if rhythm.due(pulse, worker.core.workers, self._clock.now):
                self._clock.after(self._delay_s, self._hear, pulse, worker.name)
        self._clock.after(PULSE_S, self._look, of)

    def gone(self, worker: SimWorker) -> None:
        """This worker died; the others notice that it is silent."""
        if self._moving:
            self._clock.after(SILENT_S, self._hear, ev.PeerLost(worker.name), worker.name)


def _pulse(worker: SimWorker) -> ev.PeerSeen:
    return ev.PeerSeen(worker.name, worker.tells(), len(worker.devices))


def _spread(clock: Clock, period_s: float, those: Sequence[T], call: Callable[[T], None]) -> None:
    for number, one in enumerate(those):
        clock.after(period_s * number / len(those), call, one)
