"""sentence-transformers in a process of its own: what a program does that serves nobody else.

Started as ``python -m shoal.bench.inprocess FOLDER`` by the benchmark of peers; threads come from
the environment.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from shoal.bench.piped import Helper, serve


class Calls(msgspec.Struct, frozen=True):
    """Calls of `encode`, one after the other, with this batch size."""

    texts: list[list[str]]
    batch_size: int


class Encoded(msgspec.Struct, frozen=True):
    """Seconds of each call; `vectors` is float32 [texts of all calls, dim]."""

    seconds: list[float]
    dim: int
    vectors: bytes


def in_process(folder: Path, env: Mapping[str, str]) -> Helper[Calls, Encoded]:
    """sentence-transformers with the model of `folder`, in a process with `env` added."""
    return Helper("shoal.bench.inprocess", Encoded, (str(folder),), env)


def main(folder: str) -> None:
    """Load the model, then answer `Calls`."""
    from sentence_transformers import SentenceTransformer

    model: Any = SentenceTransformer(folder, device="cpu")

    def encode(calls: Calls) -> Encoded:
        seconds, vectors = [], []
        for texts in calls.texts:
            began = time.perf_counter()
            vectors.append(
                model.encode(texts, batch_size=calls.batch_size, show_progress_bar=False)
            )
            seconds.append(time.perf_counter() - began)
        whole = np.concatenate(vectors).astype(np.float32)
        return Encoded(seconds, whole.shape[1], whole.tobytes())

    serve(Calls, encode)


if __name__ == "__main__":
    main(sys.argv[1])
