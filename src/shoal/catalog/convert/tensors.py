"""What a reader of a foreign format gives: tensors by name, each read when it is written."""

from __future__ import annotations

import math
import mmap
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import msgspec
import numpy as np
from numpy.typing import NDArray

from shoal.errors import SourceError

Array = NDArray[Any]

#: What a reader meets that takes a file at its word, where the file has other types, counts or places
#: than the format says: lists that are numbers, rows beyond the end, sizes beyond any memory.
_BROKEN = (
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    ArithmeticError,
    RuntimeError,
    OSError,
    MemoryError,
    EOFError,
    struct.error,
    zlib.error,
    BadZipFile,
)


@contextmanager
def read_as(what: str) -> Iterator[None]:
    """Whatever a broken file leads to is a `SourceError`: `what`, and what is wrong with it."""
    try:
        yield
    except _BROKEN as error:
        told = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        raise SourceError(f"{what}: {told}") from None


class Tensor(msgspec.Struct, frozen=True):
    """A tensor of `shape`; `read` gives it as floats."""

    shape: tuple[int, ...]
    read: Callable[[], Array]

    @property
    def size(self) -> int:
        return math.prod(self.shape)


class Found(msgspec.Struct, frozen=True):
    """A model as read.

    Attributes:
        config: config.json, where the format says all of it.
        files: further files that the format holds, such as tokenizer.json.
    """

    tensors: Mapping[str, Tensor]
    config: Mapping[str, Any] | None = None
    files: Mapping[str, bytes] = {}


#: The files with weights, and the folder with the data files beside them -> the model.
#: Raises `SourceError` naming the file and what is wrong with it.
Reader = Callable[[list[Path], Path], Found]


def stored(array: Array) -> Tensor:
    """A tensor that stands in the file as it is."""
    return Tensor(array.shape, lambda: array)


def opened(file: Path) -> mmap.mmap:
    """`file`, read as it is looked at. Raises `ValueError` if it is empty."""
    with file.open("rb") as handle:
        return mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)


def mapped(file: Path) -> memoryview:
    """The bytes of `file`, as `opened` has it."""
    return memoryview(opened(file))


def array_of(data: memoryview, dtype: str, shape: tuple[int, ...], what: str) -> Array:
    """`data` as an array, without a copy. Raises `ValueError` if its length does not fit."""
    expected = math.prod(shape) * np.dtype(dtype).itemsize
    if len(data) != expected:
        raise ValueError(f"{what} has {len(data)} bytes where its shape takes {expected}")
    return np.frombuffer(data, dtype).reshape(shape)


def renamed(tensors: Mapping[str, Tensor], rules: Mapping[str, str | None]) -> dict[str, Tensor]:
    """`tensors` under other names; see `Convert.rename`.

    Raises:
        SourceError: two would get the same name, or none is left.
    """
    result: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        start = next((start for start in rules if name.startswith(start)), None)
        to = "" if start is None else rules[start]
        if to is None:
            continue
        new = to + name.removeprefix(start or "")
        if new in result:
            raise SourceError(
                f"tensor '{new}' is there twice; correct `convert.rename` in the card"
            )
        result[new] = tensor
    if not result:
        raise SourceError("no tensors are left; correct `convert.rename` in the card")
    return result
