"""Arrays as (dtype, shape, bytes), little-endian and C-contiguous, without copies."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from shoal.errors import ProtocolError

#: dtype name on the wire -> numpy dtype. bfloat16 has no numpy type and never travels.
DTYPES: dict[str, np.dtype[Any]] = {
    name: np.dtype(code)
    for name, code in {
        "float32": "<f4",
        "float16": "<f2",
        "int64": "<i8",
        "int32": "<i4",
        "int8": "i1",
        "uint8": "u1",
    }.items()
}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}


class Array(msgspec.Struct, frozen=True, array_like=True):
    """An array in a message. `data` views the received buffer; it is not a copy."""

    dtype: str
    shape: tuple[int, ...]
    data: memoryview


def to_wire(array: NDArray[Any]) -> Array:
    """View `array` as a message field. Raises `ProtocolError` for a dtype that cannot travel."""
    name = _NAMES.get(array.dtype)
    if name is None:
        raise ProtocolError(
            f"arrays of dtype {array.dtype} cannot travel; use one of {list(DTYPES)}"
        )
    return Array(name, array.shape, np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def from_wire(array: Array) -> NDArray[Any]:
    """Read-only numpy view of a message field.

    Raises:
        ProtocolError: dtype unknown, size and shape disagree, or a shape numpy cannot hold.
    """
    dtype = DTYPES.get(array.dtype)
    if dtype is None:
        raise ProtocolError(f"unknown array dtype {array.dtype!r}; known are {list(DTYPES)}")
    count = 1
    for n in array.shape:
        if n < 0:
            raise ProtocolError(f"array shape {array.shape} has a negative dimension")
        count *= n
    if count * dtype.itemsize != array.data.nbytes:
        raise ProtocolError(
            f"array of shape {array.shape} and dtype {array.dtype} needs "
            f"{count * dtype.itemsize} bytes but {array.data.nbytes} came"
        )
    try:
        return np.frombuffer(array.data.toreadonly(), dtype=dtype).reshape(array.shape)
    except (ValueError, OverflowError) as error:
        raise ProtocolError(f"array shape {array.shape}: {error}") from None
