"""What worlds that pull and worlds that push have in common: clock, meter, workers, time.

Decides nothing: workers are the real core, told the same in both.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

import msgspec

from shoal.core import events as ev
from shoal.core.config import WorkerConfig
from shoal.sim.arrivals import Arrivals, Entrance
from shoal.sim.clock import Clock
from shoal.sim.meter import Meter, Outcome
from shoal.sim.scenario import Scenario
from shoal.sim.worker import Parts, Queue, SimWorker
from shoal.sim.workload import Request

#: Longest that loading everything may take before the first request comes.
READY_S = 3600.0


class Span(msgspec.Struct, frozen=True):
    """How long requests come: those of the first `warm_s` are not measured.

    `give_up`: end as soon as so many are late that the 99th percentile is lost.
    """

    warm_s: float
    measured_s: float
    give_up: bool = False

    @property
    def seconds(self) -> float:
        return self.warm_s + self.measured_s


class Stage:
    """A world without its queue."""

    def __init__(self, scenario: Scenario, span: Span, seed: int) -> None:
        self.scenario = scenario
        self.span = span
        self.clock = Clock()
        self.random = random.Random(seed)
        self.meter = Meter(float("inf"), float("inf"), scenario.goal_s)
        self.workers: list[SimWorker] = []
        self._config = self._worker_config()
        self._began = time.process_time()

    def parts(self, queue: Queue) -> Parts:
        """What workers share, with `queue` as their way out."""
        scenario = self.scenario
        models = {model.name: model for model in scenario.models}
        return Parts(
            self.clock, self.random, models, scenario.noise, scenario.latency, self.meter, queue
        )

    def _worker_config(self) -> WorkerConfig:
        cluster, noise = self.scenario.cluster, self.scenario.noise
        specs = [
            model.spec(self.random.lognormvariate(0.0, noise.seed) if noise.seed else 1.0)
            for model in self.scenario.models
        ]
        lanes = [f"lane{number}" for number in range(cluster.lanes)]
        limit = cluster.lane_bytes
        return WorkerConfig(
            lanes=lanes,
            models=specs,
            pinned=[spec.name for spec in specs] if limit is None else [],
            on_demand=limit is not None,
            lane_bytes={} if limit is None else dict.fromkeys(lanes, limit),
            eviction=cluster.eviction,
        )

    def worker(self, name: str, parts: Parts) -> SimWorker:
        """A new worker process, which begins to load what it is to hold."""
        config = msgspec.structs.replace(self._config, worker=name)
        return SimWorker(name, config, parts)

    def make_ready(self) -> None:
        """Let all that is pinned be loaded."""
        for worker in self.workers:
            worker.emit(ev.Ticked())
        pinned = len(self._config.pinned)
        waiting = [lane for worker in self.workers for lane in worker.core.lanes.values()]
        while waiting and self.clock.now < READY_S:
            waiting = [lane for lane in waiting if len(lane.resident) < pinned]
            self.clock.run(self.clock.now + 0.5)

    def play(self, requests: Sequence[Request], entrances: Sequence[Entrance]) -> None:
        """Let the requests come, and give the last ones the time that their answers may take."""
        meter, span = self.meter, self.span
        meter.start = self.clock.now + span.warm_s
        meter.end = self.clock.now + span.seconds
        expected = sum(span.warm_s <= request.at < span.seconds for request in requests)
        Arrivals(self.clock, requests, entrances)
        stop = (lambda: meter.hopeless(expected)) if span.give_up else None
        self.clock.run(meter.end + meter.goal_s, stop)

    def outcome(self, redelivered: int = 0) -> Outcome:
        """The figures of what was played."""
        cluster = self.scenario.cluster
        self.meter.end = max(self.meter.start + 1e-9, min(self.meter.end, self.clock.now))
        return self.meter.outcome(
            cluster.workers,
            cluster.workers * cluster.lanes,
            redelivered,
            self.clock.calls,
            time.process_time() - self._began,
        )
