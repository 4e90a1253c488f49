"""Reads safetensors with numpy, as views of the file.

Format: https://github.com/huggingface/safetensors#format.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from shoal.catalog.convert.tensors import array_of, mapped, read_as
from shoal.errors import SourceError

Floats = NDArray[np.float32]

_SINGLE, _INDEX = "model.safetensors", "model.safetensors.index.json"
#: bfloat16, which numpy has not, is read as its 16 bits.
_DTYPES = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}


class _Stored(msgspec.Struct):
    dtype: str
    shape: list[int]
    data_offsets: tuple[int, int]


class _Index(msgspec.Struct):
    weight_map: dict[str, str]


class Tensors:
    """The tensors of a model's folder by name, without what `prefix` they may begin with."""

    def __init__(self, folder: Path, prefix: str) -> None:
        """Raises `SourceError`: no safetensors, or broken ones."""
        self._folder = folder
        self._found: dict[str, tuple[_Stored, memoryview]] = {}
        for name in _files(folder):
            with read_as(f"{folder / name}: not a readable safetensors file"):
                data = mapped(folder / name)
                start = 8 + int.from_bytes(data[:8], "little")
                header = msgspec.json.decode(data[8:start])
                header.pop("__metadata__", None)
                stored = msgspec.convert(header, dict[str, _Stored])
            self._found |= {
                name.removeprefix(prefix): (one, data[start:]) for name, one in stored.items()
            }

    def __contains__(self, name: str) -> bool:
        return name in self._found

    def read(self, name: str) -> Floats:
        """Raises `SourceError` naming the tensor."""
        if name not in self._found:
            raise SourceError(f"{self._folder}: missing tensor: {name}")
        stored, data = self._found[name]
        with read_as(f"{self._folder}: tensor '{name}'"):
            if stored.dtype not in _DTYPES:
                raise ValueError(f"is {stored.dtype}; read are {', '.join(_DTYPES)}")
            part = data[slice(*stored.data_offsets)]
            array = array_of(part, _DTYPES[stored.dtype], tuple(stored.shape), name)
        if stored.dtype == "BF16":
            array = (array.astype(np.uint32) << 16).view(np.float32)
        return array.astype(np.float32, copy=False)


def _files(folder: Path) -> list[str]:
    if (folder / _SINGLE).is_file():
        return [_SINGLE]
    if not (folder / _INDEX).is_file():
        raise SourceError(f"{folder}: has neither {_SINGLE} nor {_INDEX}")
    with read_as(f"{folder / _INDEX}"):
        index: Any = msgspec.json.decode((folder / _INDEX).read_bytes(), type=_Index)
    names = sorted(set(index.weight_map.values()))
    for name in names:
        if Path(name).name != name:
            raise SourceError(f"{folder / _INDEX} names a file outside the folder: {name}")
    return names
