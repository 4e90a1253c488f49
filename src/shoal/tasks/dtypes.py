"""Vectors in the element type that a caller asked for, with what restores them. Pure."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.values import VectorDType

#: What stands beside a vector of whole numbers: value = scale * (number - zero_point).
SCALE, ZERO_POINT = "scale", "zero_point"


def converted(
    name: str, vectors: NDArray[np.float32], dtype: VectorDType
) -> dict[str, NDArray[Any]]:
    """Vectors [n, dim] as outputs: those of `name`, and for whole numbers what restores each.

    ``int8``: even around 0, by the largest of a vector. ``uint8``: from a vector's least number to
    its largest, 0 among them. ``binary``: [n, ceil(dim / 8)] uint8, the first number in the most
    significant bit, set where it is above 0. Vectors that are not finite must be none of them.
    """
    match dtype:
        case "float32":
            return {name: vectors}
        case "float16":
            # Overflow is looked for afterwards.
            with np.errstate(over="ignore", invalid="ignore"):
                return {name: vectors.astype(np.float16)}
        case "int8":
            scale = np.abs(vectors).max(axis=1, initial=0.0) / np.float32(127)
            numbers = np.rint(vectors / _divisor(scale)).astype(np.int8)
            return {name: numbers, f"{name}.{SCALE}": scale}
        case "uint8":
            least = vectors.min(axis=1, initial=0.0)
            scale = (vectors.max(axis=1, initial=0.0) - least) / np.float32(255)
            zero = np.rint(-least / _divisor(scale)[:, 0])
            numbers = np.clip(np.rint(vectors / _divisor(scale)) + zero[:, None], 0, 255)
            return {
                name: numbers.astype(np.uint8),
                f"{name}.{SCALE}": scale,
                f"{name}.{ZERO_POINT}": zero,
            }
        case "binary":
            return {name: np.packbits(vectors > 0, axis=1)}


def _divisor(scale: NDArray[np.float32]) -> NDArray[np.float32]:
    """[n] -> [n, 1]; a vector of zeros stays one."""
    return np.where(scale > 0, scale, np.float32(1))[:, None]
