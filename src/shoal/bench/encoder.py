"""How fast the PyTorch runtime encodes, against sentence-transformers in the same process.

Both sides get the same texts, tokenize them, compute with the same number of threads and hand
back normalised float32 vectors; rounds are interleaved, and the rival runs at several batch
sizes of which its best counts. Run it with ``python -m shoal.bench.encoder MODEL_FOLDER``.
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
import typer
from numpy.typing import NDArray
from tokenizers import Tokenizer

from shoal.runtimes.torch.runtime import TorchRuntime
from shoal.wire.arrays import from_wire, to_wire
from shoal.wire.socket import Load, Run

Encode = Callable[[list[str]], NDArray[np.float32]]

#: Words that every English vocabulary holds as one token, so that words count tokens.
_WORDS = ["the", "of", "and", "to", "in", "for", "is", "on", "that", "by", "this", "with", "you"]
_SPECIAL_TOKENS = 2
_RIVAL_BATCH_SIZES = (8, 32)


class Workload(msgspec.Struct, frozen=True):
    """Texts of given token counts; `texts` of them make one bulk call."""

    name: str
    texts: int
    tokens: Callable[[random.Random], int]


def workloads(max_tokens: int) -> list[Workload]:
    """Mixed lengths as in search traffic, short texts of one length, and the longest texts."""

    def lognormal(rng: random.Random) -> int:
        return max(3, min(max_tokens, round(rng.lognormvariate(3.78, 0.7))))

    return [
        Workload("mixed, median 44 tokens", 128, lognormal),
        Workload("equal, 16 tokens", 256, lambda _: 16),
        Workload(f"equal, {max_tokens} tokens", 24, lambda _: max_tokens),
        Workload("one text of 12 tokens", 1, lambda _: 12),
    ]


def ours(folder: Path, threads: int, max_tokens: int) -> Encode:
    """The torch runtime, called as `serve` calls it but without the socket."""
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
    return [
        " ".join(rng.choices(_WORDS, k=workload.tokens(rng) - _SPECIAL_TOKENS))
        for _ in range(workload.texts)
    ]


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


def report(workload: Workload, seconds: dict[str, list[float]]) -> str:
    """One line: texts a second of both, and the median of the rounds' ratios."""
    best = min((name for name in seconds if name != "ours"), key=lambda n: _median(seconds[n]))
    ratios = [b / a for a, b in zip(seconds["ours"], seconds[best], strict=True)]
    return (
        f"{workload.name:26} {workload.texts / _median(seconds['ours']):9.1f} texts/s   "
        f"sentence-transformers {workload.texts / _median(seconds[best]):9.1f} ({best})   "
        f"ratio {_median(ratios):5.2f}"
    )


def _median(values: list[float]) -> float:
    return statistics.median(values)


def main(
    folder: Annotated[Path, typer.Argument(help="A BERT folder with sentence-transformers files")],
    threads: Annotated[int, typer.Option(help="CPU threads of both sides")] = 1,
    rounds: Annotated[int, typer.Option(help="Interleaved rounds; medians count")] = 7,
    max_tokens: Annotated[int, typer.Option(help="Longest text")] = 256,
) -> None:
    """Texts a second of the torch runtime and of sentence-transformers, and their ratio."""
    sides = {"ours": ours(folder, threads, max_tokens), **rivals(folder, max_tokens)}
    print(f"{folder.name}, {threads} thread(s), {rounds} rounds")
    for workload in workloads(max_tokens):
        tried = rounds if workload.texts > 1 else rounds * 20
        compare(workload, sides, 1)
        print(report(workload, compare(workload, sides, tried)), flush=True)


if __name__ == "__main__":
    typer.run(main)
