"""Throughput of every head through the API, against its library in a process of its own.

Decides the models and how sides take turns: the same texts, interleaved rounds, one side at a time,
as many compute threads and the same dtype on both. The library gets all texts of a round in one call,
sorts them by length and has its best batch size, found anew for each workload: the most that it can.
"""

from __future__ import annotations

import contextlib
import math
import random
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import msgspec

from shoal.bench import report
from shoal.bench.apis import Vectors
from shoal.bench.benchmark import Tell, option
from shoal.bench.heads.kinds import HeadApi, Kind, apart
from shoal.bench.heads.lengths import EQUAL, LENGTHS, MIXED, Texts, padding
from shoal.bench.inprocess import Model, in_process
from shoal.bench.libraries import Dtype
from shoal.bench.load import Generator, generator
from shoal.bench.processes import cpu_s, descendants
from shoal.bench.rivals import thread_limits
from shoal.bench.serving import Serving
from shoal.bench.sides import InProcess, Server, Side, Task
from shoal.catalog.card import Card
from shoal.catalog.fetch import fetch
from shoal.catalog.parse import to_yaml
from shoal.catalog.resolve import Catalog

#: What the ratio of rates must reach: bulk of one length, where nobody pads, and mixed lengths.
GOALS = {EQUAL: 0.9, MIXED: 1.0}
#: Both sides compute in float32, in another order: logits of 10 differ in their fifth digit. In
#: bfloat16 a library rounds what passes from layer to layer too, so answers tell nothing.
MOST_APART: dict[Dtype, float] = {"float32": 2e-3, "bfloat16": math.inf}
AT_ONCE = 4
#: Of BERT's vocabulary, that of the SPLADE model here.
VOCABULARY = 30_522
#: Of the worker: what texts hold, and with padding.
_TOKENS = ("shoal_worker_batch_tokens_sum", "shoal_worker_computed_tokens_total")


class Head(msgspec.Struct, frozen=True):
    """A model of the catalog, what is asked of it, and what computes it elsewhere."""

    model: str
    kind: Kind
    library: str
    pooling: str = ""


HEADS = (
    Head("bge-small-en-v1.5", "dense", "SentenceTransformer", "cls"),
    Head("ms-marco-MiniLM-L-12-v2", "score", "CrossEncoder"),
    Head("splade-tiny", "sparse", "SparseEncoder"),
    Head("rampart-pii", "entities", "pipeline"),
    Head("answerai-colbert-small-v1-backbone", "multivector", "MultiVectorEncoder"),
)


class Plan(msgspec.Struct, frozen=True):
    """How to measure."""

    models: Annotated[tuple[str, ...], option("Which of the models")] = tuple(
        head.model for head in HEADS
    )
    dtype: Annotated[Dtype, option("Of both sides; Shoal's own on a CPU is float32")] = "float32"
    threads: Annotated[int, option("Compute threads of each side")] = 1
    rounds: Annotated[int, option("Interleaved rounds; medians count")] = 5
    requests: Annotated[int, option("Requests of a round")] = 4
    texts: Annotated[int, option("Texts of a request")] = 64


class Round(msgspec.Struct, frozen=True):
    """One side's round. `cpu_ms`: processor time a text, of all processes of the side."""

    texts_per_s: float
    cpu_ms: float
    errors: int


class Measured(msgspec.Struct, frozen=True):
    """All rounds of one head on texts of these lengths.

    Attributes:
        batch_size: the library's best.
        padding, our_padding: share of what is computed; the library's in such batches, ours as the
            runtime counts it.
        apart: the most of all rounds, see `kinds.apart`.
    """

    model: str
    kind: Kind
    library: str
    lengths: str
    batch_size: int
    padding: float
    our_padding: float
    apart: float
    ours: list[Round]
    theirs: list[Round]

    @property
    def ratios(self) -> list[float]:
        """Of each round: our texts a second by the library's; ascending."""
        pairs = zip(self.ours, self.theirs, strict=True)
        return sorted(ours.texts_per_s / theirs.texts_per_s for ours, theirs in pairs)

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)

    @property
    def met(self) -> bool:
        return self.ratio >= GOALS[self.lengths]


class Result(report.Result, frozen=True):
    plan: Plan
    measured: list[Measured]

    @property
    def problems(self) -> list[str]:
        lost = [m for m in self.measured if any(r.errors for r in m.ours)]
        most = MOST_APART[self.plan.dtype]
        unlike = [m for m in self.measured if m not in lost and not m.apart <= most]
        return [f"{m.model}, {m.lengths} lengths: requests were not answered" for m in lost] + [
            f"{m.model}, {m.lengths} lengths: answers are {m.apart:.2g} apart" for m in unlike
        ]


def measure(plan: Plan, tell: Tell) -> Result:
    """Start Shoal with all models, and each library while its head is measured.

    Raises:
        SourceError: a model cannot be fetched.
        Unavailable: Shoal did not start.
    """
    measured: list[Measured] = []
    heads = [head for head in HEADS if head.model in plan.models]
    catalog = Catalog.load()
    cards = {head.model: card_of(catalog.card(head.model), plan.dtype) for head in heads}
    tell("starting shoal serve")
    with (
        generator() as load,
        Serving([*cards], cards=cards, threads=plan.threads, profile="default") as serving,
    ):
        for head in heads:
            folder = fetch(catalog.card(head.model), cache_dir=None, offline=False)
            with _pair(plan, head, folder, serving, load) as pair:
                measured += [_measured(plan, pair, lengths, tell) for lengths in LENGTHS]
    packages = ["torch", "sentence-transformers", "transformers"]
    return Result(report.this_machine(packages), plan, measured)


def card_of(card: Card, dtype: Dtype) -> str:
    """The card, as a catalog's file, with `default` computing in `dtype`."""
    profile = msgspec.structs.replace(card.profiles["default"], dtype=dtype)
    return to_yaml(msgspec.structs.replace(card, profiles={"default": profile}))


class _Pair(msgspec.Struct, frozen=True):
    """Both sides of one head. `counters`: those of Shoal's worker."""

    head: Head
    texts: Texts
    ours: Server
    theirs: InProcess
    counters: Callable[[], dict[str, float]]


@contextlib.contextmanager
def _pair(
    plan: Plan, head: Head, folder: Path, serving: Serving, load: Generator
) -> Iterator[_Pair]:
    limits = {**thread_limits(plan.threads), "TOKENIZERS_PARALLELISM": "false"}
    api = HeadApi(head.model, head.kind, VOCABULARY)
    with in_process(Model(str(folder), head.kind, head.pooling, plan.dtype), limits) as helper:
        ours = Server("Shoal", serving.pid, serving.address, api, load)
        theirs = InProcess(helper, whole=True)
        yield _Pair(head, Texts(head.kind, folder), ours, theirs, serving.worker_counters)


def _measured(plan: Plan, pair: _Pair, lengths: str, tell: Tell) -> Measured:
    head = pair.head
    tell(f"{head.model}, {lengths} lengths: warming up, and the library's best batch size")
    warm_up = _task(plan, pair.texts, lengths, -1)
    pair.ours.prepare(warm_up)
    pair.theirs.prepare(warm_up)
    before = pair.counters()
    rounds = [
        _round(pair, _task(plan, pair.texts, lengths, n), n, tell) for n in range(plan.rounds)
    ]
    after = pair.counters()
    tokens, computed = (after[name] - before[name] for name in _TOKENS)
    size = pair.theirs.batch_size
    return Measured(
        head.model,
        head.kind,
        head.library,
        lengths,
        batch_size=size,
        padding=statistics.mean(padding(r.tokens, size) for r in rounds),
        our_padding=1 - tokens / computed,
        apart=max(r.apart for r in rounds),
        ours=[r.ours for r in rounds],
        theirs=[r.theirs for r in rounds],
    )


def _task(plan: Plan, texts: Texts, lengths: str, number: int) -> Task:
    """The round's texts, the same for both; half as many to warm up."""
    rng = random.Random(f"{lengths} {number}")
    requests = plan.requests if number >= 0 else max(1, plan.requests // 2)
    return Task([texts.draw(lengths, rng, plan.texts) for _ in range(requests)], AT_ONCE)


class _Both(msgspec.Struct, frozen=True):
    """A round of both sides. `tokens`: of each text."""

    ours: Round
    theirs: Round
    apart: float
    tokens: list[int]


def _round(pair: _Pair, task: Task, number: int, tell: Tell) -> _Both:
    """Sides begin in turns."""
    sides: list[Side] = [pair.ours, pair.theirs]
    run = {side.name: _run(side, task) for side in (sides if number % 2 else sides[::-1])}
    (ours, found), (theirs, expected) = (run[side.name] for side in sides)
    tell(f"Shoal {ours.texts_per_s:,.1f} texts/s, the library {theirs.texts_per_s:,.1f}")
    tokens = pair.texts.tokens([text for texts in task.requests for text in texts])
    return _Both(ours, theirs, apart(pair.head.kind, found, expected), tokens)


def _run(side: Side, task: Task) -> tuple[Round, Vectors | None]:
    own = descendants(side.pid)
    before = cpu_s(own)
    answer = side.run(task)
    cpu_ms = (cpu_s(own) - before) * 1e3 / task.texts
    return Round(task.texts / answer.seconds, cpu_ms, answer.errors), answer.vectors


def table(result: Result) -> str:
    """A row for each head and kind of lengths: medians, and the rounds' ratios."""
    head = ["model", "library", "lengths", "batch", "library pads %", "Shoal pads %"]
    head += ["library texts/s", "Shoal texts/s", "ratio", "rounds", "goal", "", "library CPU ms"]
    head += ["Shoal CPU ms", "apart at most"]
    plan = result.plan
    told = f"{plan.dtype} and {plan.threads} compute thread(s) on both sides"
    return f"{told}\n\n{report.table(head, [_row(measured) for measured in result.measured])}"


def _row(measured: Measured) -> list[object]:
    ours, theirs, ratios = measured.ours, measured.theirs, measured.ratios
    return [
        measured.model,
        measured.library,
        measured.lengths,
        measured.batch_size,
        measured.padding * 100,
        measured.our_padding * 100,
        statistics.median(r.texts_per_s for r in theirs),
        statistics.median(r.texts_per_s for r in ours),
        f"{measured.ratio:.2f}×",
        f"{ratios[0]:.2f} to {ratios[-1]:.2f}",
        f"{'≥' if measured.lengths == EQUAL else '>'} {GOALS[measured.lengths]:g}",
        "met" if measured.met else "missed",
        statistics.median(r.cpu_ms for r in theirs),
        statistics.median(r.cpu_ms for r in ours),
        f"{measured.apart:.1g}",
    ]
