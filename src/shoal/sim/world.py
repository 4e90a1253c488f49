"""A world in which workers pull: gateways, a broker, pulses, claims, and workers that may die.

Assembles real decisions (`core.admission`, `core.worker`) and virtual parts; decides nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from shoal.core import events as ev
from shoal.sim.broker import Broker
from shoal.sim.claims import Claims
from shoal.sim.gateway import SimGateway
from shoal.sim.meter import Outcome
from shoal.sim.pulled import PullQueue
from shoal.sim.pulses import Pulses
from shoal.sim.residents import Residents
from shoal.sim.scenario import Scenario
from shoal.sim.stage import Span, Stage
from shoal.sim.workload import Request


class PullWorld:
    """One run of a scenario with the real core pulling."""

    def __init__(self, scenario: Scenario, span: Span, seed: int) -> None:
        self.stage = stage = Stage(scenario, span, seed)
        self.broker = Broker(stage.clock)
        queue = PullQueue(stage.clock, self.broker, Claims(stage.clock), stage.meter)
        self._parts = stage.parts(queue)
        self._residents = Residents(scenario.models)
        cluster = scenario.cluster
        stage.workers += [stage.worker(f"w{n}", self._parts) for n in range(cluster.workers)]
        self.gateways = [self._gateway(f"g{number}") for number in range(cluster.gateways)]
        self._pulses = Pulses(
            stage.clock,
            scenario.latency,
            self.gateways,
            stage.workers,
            self._residents,
            moving=cluster.lane_bytes is not None,
        )

    def _gateway(self, name: str) -> SimGateway:
        stage = self.stage
        return SimGateway(
            name,
            stage.scenario.models,
            stage.clock,
            self._parts.link(),
            self.broker,
            self._residents,
            stage.meter,
            stage.scenario.timeout_s,
            announce=lambda gateway: self._pulses.announce(gateway),
            cancel=self._cancel,
        )

    def run(self, requests: Sequence[Request]) -> Outcome:
        """Play these requests and measure."""
        stage = self.stage
        stage.make_ready()
        self._pulses.begin()
        for after_s, number in stage.scenario.cluster.kills:
            stage.clock.after(after_s, self._kill, number)
        stage.play(requests, self.gateways)
        return stage.outcome(self.broker.redelivered)

    def _cancel(self, request: str) -> None:
        event = ev.Cancelled([request])
        for worker in self.stage.workers:
            worker.down.send(worker.emit, event)

    def _kill(self, number: int) -> None:
        worker = self.stage.workers[number]
        worker.die()
        self.broker.lost(worker)
        self._pulses.gone(worker)
        self.stage.clock.after(self.stage.scenario.cluster.restart_s, self._restart, number)

    def _restart(self, number: int) -> None:
        name = f"{self.stage.workers[number].name}+"
        worker = self.stage.workers[number] = self.stage.worker(name, self._parts)
        worker.emit(ev.Ticked())
        self._pulses.greet(number)
