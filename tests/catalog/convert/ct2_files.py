"""Files of CTranslate2 made by hand."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

_TYPES = {"float32": 0, "int8": 1, "int16": 2, "int32": 3, "float16": 4}


def text(value: str) -> bytes:
    data = value.encode() + b"\0"
    return struct.pack("<H", len(data)) + data


def model(spec: str, variables: Mapping[str, NDArray[Any]], version: int = 6) -> bytes:
    data = struct.pack("<I", version) + text(spec) + struct.pack("<II", 3, len(variables))
    for name, given in variables.items():
        array = np.asarray(given)
        shape = struct.pack(f"<B{array.ndim}I", array.ndim, *array.shape)
        data += text(name) + shape + struct.pack("<BI", _TYPES[array.dtype.name], array.nbytes)
        data += array.tobytes()
    return data + struct.pack("<I", 1) + text("decoder/projection") + text("decoder/embeddings")
