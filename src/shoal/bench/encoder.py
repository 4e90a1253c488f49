"""How fast the PyTorch runtime encodes, against sentence-transformers in the same process.

Both sides get the same texts, tokenize them, compute with the same number of threads and hand
back normalised float32 vectors; rounds are interleaved, and the rival runs at several batch
sizes of which its best counts.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from shoal.bench import report
from shoal.bench.benchmark import Tell, option
from shoal.bench.texts import mixed_length, text
from shoal.catalog.fetch import fetch
from shoal.catalog.resolve import Catalog
from shoal.wire.arrays import from_wire, to_wire
from shoal.wire.socket import Load, Run

Encode = Callable[[list[str]], NDArray[np.float32]]

_OURS = "ours"
_RIVAL_BATCH_SIZES = (8, 32)


class Plan(msgspec.Struct, frozen=True):
    """How to measure."""

    folder: Annotated[str, option("A BERT with sentence-transformers files; else MiniLM")] = ""
    threads: Annotated[int, option("CPU threads of both sides")] = 1
    rounds: Annotated[int, option("Interleaved rounds; medians count")] = 7
    max_tokens: Annotated[int, option("Longest text")] = 256
    size: Annotated[float, option("Scales the texts of a call")] = 1.0


class Workload(msgspec.Struct, frozen=True):
    """Texts of given token counts; `texts` of them make one call."""

    name: str
    texts: int
    tokens: Callable[[random.Random], int]


def workloads(plan: Plan) -> list[Workload]:
    """Mixed lengths as in search traffic, short texts of one length, and the longest texts."""
    longest = plan.max_tokens
    mixed, equal, long = (max(2, round(texts * plan.size)) for texts in (128, 256, 24))
    return [
        Workload("mixed, median 44 tokens", mixed, lambda rng: min(longest, mixed_length(rng))),
        Workload("equal, 16 tokens", equal, lambda _: 16),
        Workload(f"equal, {longest} tokens", long, lambda _: longest),
        Workload("one text of 12 tokens", 1, lambda _: 12),
    ]


def ours(folder: Path, threads: int, max_tokens: int) -> Encode:
    """The torch runtime, called as `serve` calls it but without the socket."""
    from shoal.runtimes.torch.runtime import TorchRuntime  # imports torch

    runtime = TorchRuntime(threads=threads)
    runtime.load(Load("m", str(folder), "bert", {"dense": {"pooling": "mean"}}, "auto", max_tokens))
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens)

    def encode(texts: list[str]) -> NDArray[np.float32]:
        ids = [encoding.ids for encoding in tokenizer.encode_batch(texts)]
        tokens = np.fromiter((token for item in ids for token in item), np.int32)
        lengths = np.array([len(item) for item in ids], np.int32)
        done = runtime.run(Run(1, "m", ["dense"], to_wire(tokens), to_wire(lengths)))
        vectors: NDArray[np.float32] = from_wire(done.arrays["dense"]).copy()
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors

    return encode


def rivals(folder: Path, max_tokens: int) -> dict[str, Encode]:
    """sentence-transformers at several batch sizes."""
    from sentence_transformers import SentenceTransformer

    model: Any = SentenceTransformer(str(folder), device="cpu")
    model.max_seq_length = max_tokens

    def at(size: int) -> Encode:
        return lambda texts: np.asarray(model.encode(texts, batch_size=size), np.float32)

    return {f"batch size {size}": at(size) for size in _RIVAL_BATCH_SIZES}


def texts_of(workload: Workload, rng: random.Random) -> list[str]:
    """Fresh texts of the workload."""
    return [text(rng, workload.tokens(rng)) for _ in range(workload.texts)]


def compare(workload: Workload, sides: dict[str, Encode], rounds: int) -> dict[str, list[float]]:
    """Seconds per call of each side, interleaved, on the same texts; new texts every round."""
    rng = random.Random(7)
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        texts = texts_of(workload, rng)
        for name, encode in sides.items():
            began = time.perf_counter()
            encode(texts)
            seconds[name].append(time.perf_counter() - began)
    return seconds


class Row(msgspec.Struct, frozen=True):
    """Seconds a call of each side; the rival's best batch size counts."""

    workload: str
    texts: int
    ours_s: list[float]
    rival: str
    rival_s: list[float]


class Result(report.Result, frozen=True):
    plan: Plan
    rows: list[Row]


def measure(plan: Plan, tell: Tell) -> Result:
    """Every workload in turn. Raises `SourceError`."""
    folder = Path(plan.folder) if plan.folder else _minilm()
    sides = {_OURS: ours(folder, plan.threads, plan.max_tokens), **rivals(folder, plan.max_tokens)}
    rows: list[Row] = []
    for workload in workloads(plan):
        tell(workload.name)
        compare(workload, sides, 1)
        tried = plan.rounds if workload.texts > 1 else plan.rounds * 20
        rows.append(_row(workload, compare(workload, sides, tried)))
    packages = ["torch", "sentence-transformers", "transformers"]
    return Result(report.this_machine(packages), plan, rows)


def _minilm() -> Path:
    return fetch(Catalog.load().card("all-MiniLM-L6-v2"), cache_dir=None, offline=False)


def _row(workload: Workload, seconds: dict[str, list[float]]) -> Row:
    best = min(seconds.keys() - {_OURS}, key=lambda name: statistics.median(seconds[name]))
    return Row(workload.name, workload.texts, seconds[_OURS], best, seconds[best])


def table(result: Result) -> str:
    """One row a workload: texts a second of both, and the median of the rounds' ratios."""
    head = ["texts", "texts/s", "sentence-transformers", "at", "ratio"]
    return report.table(head, [_cells(row) for row in result.rows])


def _cells(row: Row) -> list[object]:
    ratios = [theirs / ours for ours, theirs in zip(row.ours_s, row.rival_s, strict=True)]
    rates = [row.texts / statistics.median(seconds) for seconds in (row.ours_s, row.rival_s)]
    return [row.workload, *rates, row.rival, f"{statistics.median(ratios):.2f}×"]
