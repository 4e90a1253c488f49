"""A world in which routers push: the same workers, told what to do by a router instead of a queue.

A worker is the real core whose broker is lost, so that it asks for nothing: it forms batches from
what it was sent by the same rules, learns the same costs and keeps its lanes as busy. A request is
cut into the same units. Pushing has one hop where the queue has two, and admits everything.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence

from shoal.core import events as ev
from shoal.sim.broker import Holder, Message
from shoal.sim.clock import Clock, Link
from shoal.sim.loads import Exact, Stale, View
from shoal.sim.meter import Meter, Outcome
from shoal.sim.replicas import replica_sets
from shoal.sim.routers import Affinity, LeastLoaded, PowerOfTwo, RoundRobin, Router
from shoal.sim.rules import Rule
from shoal.sim.scenario import Scenario
from shoal.sim.stage import Span, Stage
from shoal.sim.unit import Unit
from shoal.sim.units import rate_of, units_of
from shoal.sim.worker import SimWorker
from shoal.sim.workload import Request


class PushFront:
    """One router process: takes requests, sends their units to workers, takes answers."""

    def __init__(
        self,
        name: str,
        scenario: Scenario,
        clock: Clock,
        meter: Meter,
        router: Router,
        view: View,
        workers: list[SimWorker],
        link: Callable[[], Link],
    ) -> None:
        self._name = name
        self._scenario = scenario
        self._clock = clock
        self._meter = meter
        self._router = router
        self._view = view
        self._workers = workers
        self._links = [link() for _ in workers]
        self._rates = [rate_of(model, len(workers)) for model in scenario.models]
        self._requests = 0
        self._came: dict[str, float] = {}
        self._left: Counter[str] = Counter()
        self._sent: dict[str, tuple[int, float]] = {}

    def arrive(self, request: Request) -> None:
        """A request came: send each of its units to the worker that the rule chooses."""
        now = self._clock.now
        scenario = self._scenario
        model, rate = scenario.models[request.model], self._rates[request.model]
        self._requests += 1
        key = f"{self._name}-{self._requests}"
        units = units_of(key, request, model, rate, scenario.timeout_s, self)
        self._came[key] = now
        self._left[key] = len(units)
        self._meter.arrived(now, resident=True)
        for unit in units:
            self._send(unit, request.model, rate.seconds(unit.bytes, len(unit.lengths)))

    def _send(self, unit: Unit, model: int, seconds: float) -> None:
        worker = self._router.choose(model)
        self._view.sent(worker, seconds)
        self._sent[unit.id] = (worker, seconds)
        message = Message(unit.model, unit, self._clock.now, unit.timeout_s)
        self._links[worker].send(self._workers[worker].delivered, 0, message, 0, False)

    def replied(self, message: Message, worker: Holder) -> None:
        """An answer came, and settles the unit at once."""
        unit = message.body
        self._view.done(*self._sent.pop(unit.id))
        self._left[unit.request] -= 1
        if not self._left[unit.request]:
            del self._left[unit.request]
            self._meter.done(self._came.pop(unit.request), self._clock.now)
        worker.settled(message)


class PushQueue:
    """Answers go straight back to the router; nobody is asked for anything else."""

    def reply(self, worker: SimWorker, message: Message) -> None:
        """One hop back."""
        worker.up.send(message.body.front.replied, message, worker)

    def term(self, worker: SimWorker, message: Message) -> None:
        """Past its deadline: its router knows."""

    def nak(self, worker: SimWorker, message: Message, delay_s: float) -> None:
        raise AssertionError(f"{worker.name} was sent what it does not hold")

    def pull(
        self, worker: SimWorker, pull: int, model: str, count: int, expires_s: float | None
    ) -> None:
        raise AssertionError("a worker without a broker pulls")

    def listen(self, worker: SimWorker) -> None:
        """There is nothing to hear."""

    def tell(self, worker: SimWorker, told: ev.TellPulled) -> None:
        raise AssertionError("a worker without a broker pulls")

    def withdraw(self, worker: SimWorker, pull: int) -> None:
        raise AssertionError("a worker without a broker has no pulls")

    def claim(self, worker: SimWorker, model: str, ttl_s: float) -> None:
        raise AssertionError("where all models are resident none is moved")

    def unclaim(self, worker: SimWorker, model: str) -> None:
        raise AssertionError("where all models are resident none is moved")


class PushWorld:
    """One run of a scenario with a rival's rule."""

    def __init__(self, scenario: Scenario, rule: Rule, span: Span, seed: int) -> None:
        self.stage = stage = Stage(scenario, span, seed)
        parts = stage.parts(PushQueue())
        cluster = scenario.cluster
        stage.workers += [stage.worker(f"w{n}", parts) for n in range(cluster.workers)]
        truth = Exact(cluster.workers, seed)
        self.fronts: list[PushFront] = []
        for number in range(cluster.gateways):
            view = _view(rule, stage.clock, truth, number / cluster.gateways, seed + number)
            router = _router(rule, scenario, view, stage.random)
            self.fronts.append(
                PushFront(
                    f"r{number}",
                    scenario,
                    stage.clock,
                    stage.meter,
                    router,
                    view,
                    stage.workers,
                    parts.link,
                )
            )

    def run(self, requests: Sequence[Request]) -> Outcome:
        """Play these requests and measure."""
        stage = self.stage
        for worker in stage.workers:
            worker.emit(ev.BrokerLost())
        stage.make_ready()
        stage.play(requests, self.fronts)
        return stage.outcome()


def _view(rule: Rule, clock: Clock, truth: Exact, phase: float, seed: int) -> View:
    return Stale(clock, truth, rule.stale_s, phase, seed) if rule.stale_s else truth


def _router(rule: Rule, scenario: Scenario, view: View, random_: random.Random) -> Router:
    workers = scenario.cluster.workers
    shares = [model.share for model in scenario.models]
    match rule.kind:
        case "round-robin":
            return RoundRobin(workers, random_)
        case "least-loaded":
            return LeastLoaded(view)
        case "power-of-two":
            return PowerOfTwo(view, random_)
        case "affinity":
            return Affinity(view, replica_sets(shares, workers, rule.spread), rule.spill_s)
        case "pools":
            return Affinity(view, replica_sets(shares, workers), float("inf"))
        case "pull":
            raise ValueError("pulling needs no router")
