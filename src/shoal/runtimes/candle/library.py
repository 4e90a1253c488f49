"""`candding`, Candle's encoders for Python: how it is called, and its errors as ours.

https://candding.rust-dd.com/docs/python. That it takes a folder is written in its source alone
(`embed/builder.rs`).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import candding

from shoal.errors import ShoalError
from shoal.runtimes.base import OutOfMemory

#: Candle's own are Rayon's, which counts by this.
_THREADS = "RAYON_NUM_THREADS"


def compute_with(threads: int) -> None:
    """How many threads the process has; before anything is computed."""
    os.environ[_THREADS] = str(threads)


def open_folder(folder: Path, max_tokens: int) -> candding.TextEmbedding:
    """A model in float32 on the processor, whose vectors are as its last layer gives them."""
    return candding.TextEmbedding(
        str(folder), device="cpu", dtype="f32", max_length=max_tokens, normalize=False
    )


@contextlib.contextmanager
def as_ours(kind: type[ShoalError], of: str) -> Iterator[None]:
    """Whatever the library says inside becomes a `kind`, or `OutOfMemory`; `of`: what it is about."""
    try:
        yield
    except candding.CanddingError as error:
        if error.kind == "InsufficientMemory":
            raise OutOfMemory(f"{of} did not fit: {_first_line(error)}") from None
        raise kind(f"{of}: candding says: {_first_line(error)}") from None
    except BaseException as error:
        # A panic in Rust is no `Exception`, so that nobody goes on by accident; here the library has
        # no state that it could have left half changed.
        if type(error).__name__ != "PanicException":
            raise
        raise kind(f"{of}: candding panicked: {_first_line(error)}") from None


def _first_line(error: BaseException) -> str:
    """Without the traces that follow it."""
    return str(error).partition("\n")[0]
