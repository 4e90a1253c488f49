"""A state dict as torch saves it: a pickle that says which tensors there are, and their numbers.

Two forms: since torch 1.6 a zip with ``data.pkl`` and a file for each storage; before, pickles one
after the other, then each storage with its count before it. Both are read by `pickled`.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile, is_zipfile

import numpy as np

from shoal.catalog.convert import pickled
from shoal.catalog.convert.pickled import Storage, View
from shoal.catalog.convert.tensors import Array, Found, Tensor, opened, read_as
from shoal.errors import SourceError

_MAGIC = 0x1950A86A20F9469CFC6C
_PROTOCOL = 1001
#: Storages of floats -> numpy. Others hold counters of training, which are left out.
_FLOATS = {"torch FloatStorage": "<f4", "torch HalfStorage": "<f2", "torch DoubleStorage": "<f8"}

Numbers = Callable[[Storage], memoryview]


def read(files: list[Path], folder: Path) -> Found:
    """The tensors of a state dict, by its own names. Raises `SourceError`."""
    [file] = files
    with read_as(f"{file.name}: not a readable state dict"):
        state, numbers = _zip(file) if is_zipfile(file) else _legacy(file)
        if not isinstance(state, dict):
            raise ValueError("it holds no dict of tensors")
        return Found(
            {
                name: _tensor(view, numbers)
                for name, view in state.items()
                if isinstance(view, View) and view.storage.kind in _FLOATS
            }
        )


def _zip(file: Path) -> tuple[Any, Numbers]:
    archive = ZipFile(file)
    [index] = [name for name in archive.namelist() if name.endswith("/data.pkl")]
    top = index.removesuffix("data.pkl")
    state = pickled.read(archive.open(_plain(archive, index)))

    def numbers(storage: Storage) -> memoryview:
        return memoryview(archive.read(_plain(archive, f"{top}data/{storage.key}")))

    return state, numbers


def _plain(archive: ZipFile, name: str) -> str:
    """torch packs nothing; what is packed may be a thousand times as large as its file."""
    if archive.getinfo(name).compress_type != ZIP_STORED:
        raise ValueError(f"{name} is compressed, which torch never does")
    return name


def _legacy(file: Path) -> tuple[Any, Numbers]:
    stream = opened(file)  # of which no read is longer than what is there
    if pickled.read(stream) != _MAGIC or pickled.read(stream) != _PROTOCOL:
        raise ValueError("it does not begin as torch begins one")
    pickled.read(stream)  # of the machine that saved it
    state, keys = pickled.read(stream), pickled.read(stream)
    at, data = stream.tell(), memoryview(stream)
    sizes = {
        view.storage.key: np.dtype(_FLOATS.get(view.storage.kind, "<i8")).itemsize
        for view in state.values()
        if isinstance(view, View)
    }
    parts: dict[str, memoryview] = {}
    for key in keys:
        [count] = struct.unpack_from("<q", data, at)
        start = at + 8
        at = start + count * sizes[key]
        parts[key] = data[start:at]
    return state, lambda storage: parts[storage.key]


def _tensor(view: View, numbers: Numbers) -> Tensor:
    dtype = np.dtype(_FLOATS[view.storage.kind])

    def read() -> Array:
        data = numbers(view.storage)
        if len(data) != view.storage.count * dtype.itemsize:
            raise SourceError(f"storage {view.storage.key} has {len(data)} bytes: the file is cut")
        flat = np.frombuffer(data, dtype)
        last = view.start + sum((n - 1) * s for n, s in zip(view.shape, view.strides, strict=True))
        if min(view.start, *view.strides, 0) < 0 or last >= max(len(flat), 1):
            raise SourceError(f"a tensor passes the end of storage {view.storage.key}")
        if math.prod(view.shape) > len(flat):  # numbers that repeat, as often as the file likes
            raise SourceError(f"a tensor is larger than its storage {view.storage.key}")
        strides = [stride * dtype.itemsize for stride in view.strides]
        return np.lib.stride_tricks.as_strided(flat[view.start :], view.shape, strides)

    return Tensor(view.shape, read)
