"""Seconds of real batches by their tokens: the points by which the fake runtime is timed.

Runs batches of mixed texts of each size on the PyTorch runtime, all sizes in turn, again and again.
The lower quartile counts: other work on the machine makes batches longer, never shorter.
"""

from __future__ import annotations

import random
import statistics
from typing import Annotated

import msgspec
import numpy as np

from shoal.bench import report
from shoal.bench.benchmark import Tell, option
from shoal.bench.texts import mixed_length
from shoal.catalog.fetch import fetch
from shoal.catalog.resolve import Catalog
from shoal.wire.arrays import to_wire
from shoal.wire.socket import Run
from shoal.worker.models import load_of

SIZES = (8, 16, 32, 64, 128, 256, 512, 1024, 2048)
#: Any token id of a real vocabulary will do: they all cost the same.
_TOKENS = (1_000, 20_000)


class Plan(msgspec.Struct, frozen=True):
    """How to measure."""

    model: Annotated[str, option("A BERT of the catalog")] = "all-MiniLM-L6-v2"
    profile: Annotated[str, option("Of its card")] = "cpu-bf16"
    threads: Annotated[int, option("Compute threads")] = 1
    rounds: Annotated[int, option("Batches of each size")] = 24


class Result(report.Result, frozen=True):
    """`points`: (tokens, seconds)."""

    points: list[tuple[int, float]]


def measure(plan: Plan, tell: Tell) -> Result:
    """Time batches, as the profile says. Raises `SourceError`."""
    from shoal.runtimes.torch.runtime import TorchRuntime  # imports torch

    card = Catalog.load().card(plan.model)
    profile = card.profile(plan.profile)
    runtime = TorchRuntime(threads=plan.threads)
    load = load_of(card, fetch(card, cache_dir=None, offline=False), profile)
    runtime.load(msgspec.structs.replace(load, threads=plan.threads))
    tell(f"{plan.rounds} batches of each of {len(SIZES)} sizes")
    rng = random.Random(3)
    seconds: dict[int, list[float]] = {size: [] for size in SIZES}
    for number in range(plan.rounds + 2):
        for size in SIZES:
            took = runtime.run(_batch(rng, size, plan.model)).seconds
            if number >= 2:  # kernels are compiled for each new size
                seconds[size].append(took)
    points = [(size, statistics.quantiles(seconds[size], n=4)[0]) for size in SIZES]
    return Result(report.this_machine(["torch"]), points)


def _batch(rng: random.Random, tokens: int, model: str) -> Run:
    lengths: list[int] = []
    while (left := tokens - sum(lengths)) > 0:
        length = min(left, mixed_length(rng))
        lengths.append(left if left - length < 3 else length)  # not a rest without a word
    ids = np.array([rng.randrange(*_TOKENS) for _ in range(tokens)], np.int32)
    return Run(1, model, ["dense"], to_wire(ids), to_wire(np.array(lengths, np.int32)))


def table(result: Result) -> str:
    """The points, what a token costs at each, and the points as the fake runtime takes them."""
    head = ["tokens", "ms", "µs a token"]
    rows = [[n, s * 1e3, s * 1e6 / n] for n, s in result.points]
    return f"{report.table(head, rows)}\n\n{result.points}"
