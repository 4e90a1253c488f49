"""Seconds of real batches by their tokens: the points by which the fake runtime is timed.

Runs batches of mixed texts of each size on the PyTorch runtime, all sizes in turn, again and again.
The lower quartile counts: other work on the machine makes batches longer, never shorter.
"""

from __future__ import annotations

import random
import statistics
from pathlib import Path

import msgspec
import numpy as np

from shoal.bench import report
from shoal.bench.texts import mixed_length
from shoal.catalog.card import Profile
from shoal.runtimes.torch.runtime import TorchRuntime
from shoal.wire.arrays import to_wire
from shoal.wire.socket import Load, Run

SIZES = (8, 16, 32, 64, 128, 256, 512, 1024, 2048)
#: Any token id of a real vocabulary will do: they all cost the same.
_TOKENS = (1_000, 20_000)


class Result(msgspec.Struct, frozen=True):
    """`points`: (tokens, seconds)."""

    machine: report.Machine
    points: list[tuple[int, float]]


def measure(folder: Path, profile: Profile, threads: int, rounds: int) -> Result:
    """Time batches of a BERT in `folder`, as `profile` says."""
    runtime = TorchRuntime(threads=threads)
    heads = {"dense": {"pooling": "mean"}}
    runtime.load(Load("m", str(folder), "bert", heads, profile.dtype, 256))
    rng = random.Random(3)
    seconds: dict[int, list[float]] = {size: [] for size in SIZES}
    for number in range(rounds + 2):
        for size in SIZES:
            took = runtime.run(_batch(rng, size)).seconds
            if number >= 2:  # kernels are compiled for each new size
                seconds[size].append(took)
    points = [(size, statistics.quantiles(seconds[size], n=4)[0]) for size in SIZES]
    return Result(report.this_machine(["torch"]), points)


def _batch(rng: random.Random, tokens: int) -> Run:
    lengths: list[int] = []
    while (left := tokens - sum(lengths)) > 0:
        length = min(left, mixed_length(rng))
        lengths.append(left if left - length < 3 else length)  # not a rest without a word
    ids = np.array([rng.randrange(*_TOKENS) for _ in range(tokens)], np.int32)
    return Run(1, "m", ["dense"], to_wire(ids), to_wire(np.array(lengths, np.int32)))


def table(result: Result) -> str:
    """The points, and what a token costs at each."""
    head = ["tokens", "ms", "µs a token"]
    return report.table(head, [[n, s * 1e3, s * 1e6 / n] for n, s in result.points])
