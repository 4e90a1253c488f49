"""Writes model.safetensors, one tensor at a time.

Format: https://github.com/huggingface/safetensors#format — the length of a JSON header, the
header, then the tensors end to end.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from shoal.catalog.conversion import StoredDType
from shoal.catalog.convert.tensors import Array, Tensor, read_as
from shoal.errors import SourceError

_NAMES: dict[StoredDType, str] = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}
_BYTES: dict[StoredDType, int] = {"float32": 4, "float16": 2, "bfloat16": 2}
#: Tensors begin at a multiple of it, so that a mapped file can be used in place.
_ALIGNMENT = 8


def write(
    file: Path,
    tensors: Mapping[str, Tensor],
    dtype: StoredDType,
    tell: Callable[[int, int], None],
) -> None:
    """Write `tensors`, sorted by name; `tell` hears bytes written and bytes in all.

    Raises:
        SourceError: a tensor holds no finite numbers, or none that `dtype` can hold.
    """
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, tensor in sorted(tensors.items()):
        start, end = end, end + tensor.size * _BYTES[dtype]
        header[name] = {
            "dtype": _NAMES[dtype],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
    text = msgspec.json.encode(header)
    text += b" " * (-len(text) % _ALIGNMENT)
    with file.open("wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        done = 0
        for name, tensor in sorted(tensors.items()):
            done += out.write(_bytes(name, tensor, dtype))
            tell(done, end)


def _bytes(name: str, tensor: Tensor, dtype: StoredDType) -> bytes:
    with read_as(f"tensor '{name}' cannot be read"), np.errstate(all="ignore"):
        array = np.asarray(tensor.read(), np.float32, order="C")
    if array.shape != tensor.shape:
        raise SourceError(f"tensor '{name}' is {array.shape}, not {tensor.shape} as announced")
    if not np.isfinite(array).all():
        raise SourceError(f"tensor '{name}' holds values that are no finite numbers")
    if dtype == "bfloat16":
        return _bfloat16(array).tobytes()
    with np.errstate(over="ignore"):
        stored = array.astype(f"<f{_BYTES[dtype]}")
    if not np.isfinite(stored).all():
        raise SourceError(f"tensor '{name}' holds values beyond {dtype}; store another dtype")
    return stored.tobytes()


def _bfloat16(array: Array) -> Array:
    """Round to the nearest, ties to even: the upper half of a float32."""
    bits = array.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2")
