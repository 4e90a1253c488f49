"""A library in a process of its own: what a program does that serves nobody else.

Started as ``python -m shoal.bench.inprocess MODEL`` by benchmarks; threads come from
the environment.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec
import numpy as np

from shoal.bench.heads.calls import library
from shoal.bench.heads.kinds import Kind
from shoal.bench.libraries import Dtype
from shoal.bench.piped import Helper, serve


class Calls(msgspec.Struct, frozen=True):
    """Calls of the library, one after the other, with this batch size."""

    texts: list[list[str]]
    batch_size: int


class Encoded(msgspec.Struct, frozen=True):
    """Seconds of each call; `vectors` is float32 [rows of all calls, dim]."""

    seconds: list[float]
    dim: int
    vectors: bytes


class Model(msgspec.Struct, frozen=True):
    """What the library loads; `pooling` of dense vectors, where its folder tells none."""

    folder: str
    kind: Kind = "dense"
    pooling: str = "mean"
    dtype: Dtype = "float32"


def in_process(model: Model, env: Mapping[str, str]) -> Helper[Calls, Encoded]:
    """The library with `model`, in a process with `env` added."""
    return Helper("shoal.bench.inprocess", Encoded, (msgspec.json.encode(model).decode(),), env)


def main(described: str) -> None:
    """Load the model, then answer `Calls`."""
    given = msgspec.json.decode(described, type=Model)
    model = library(given.kind, Path(given.folder), given.pooling, given.dtype)

    def encode(calls: Calls) -> Encoded:
        seconds, rows = [], []
        for texts in calls.texts:
            began = time.perf_counter()
            answer = model.call(texts, calls.batch_size)
            seconds.append(time.perf_counter() - began)
            rows.append(model.rows(texts, answer))
        whole = np.concatenate(rows).astype(np.float32)
        return Encoded(seconds, whole.shape[1], whole.tobytes())

    serve(Calls, encode)


if __name__ == "__main__":
    main(sys.argv[1])
