"""Tensors as ggml packs them: rows of blocks of 32 numbers that share a scale.

Source: https://github.com/ggml-org/ggml, `ggml-common.h` and the reference dequantizers of
`ggml-quants.c`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec
import numpy as np

from shoal.catalog.convert.tensors import Array, Tensor

BLOCK = 32


class Packing(msgspec.Struct, frozen=True):
    """How blocks of `numbers` values are stored, and what gives them back, [blocks, numbers]."""

    block: np.dtype[np.void] | np.dtype[np.generic]
    numbers: int
    unpack: Callable[[Array], Array]


def _q4_0(blocks: Array) -> Array:
    return (_halves(blocks["q"]) - np.float32(8)) * _scale(blocks, "d")


def _q4_1(blocks: Array) -> Array:
    return _halves(blocks["q"]) * _scale(blocks, "d") + _scale(blocks, "m")


def _q8_0(blocks: Array) -> Array:
    return blocks["q"].astype(np.float32) * _scale(blocks, "d")


def _plain(blocks: Array) -> Array:
    return blocks[:, None].astype(np.float32)


def _scale(blocks: Array, name: str) -> Array:
    return blocks[name].astype(np.float32)[:, None]


def _halves(packed: Array) -> Array:
    """The low halves of a block's bytes are its first half, the high ones its second."""
    return np.concatenate([packed & 15, packed >> 4], 1).astype(np.float32)


#: ggml's number of a type -> how it is packed.
PACKINGS = {
    0: Packing(np.dtype("<f4"), 1, _plain),
    1: Packing(np.dtype("<f2"), 1, _plain),
    2: Packing(np.dtype([("d", "<f2"), ("q", "u1", 16)]), BLOCK, _q4_0),
    3: Packing(np.dtype([("d", "<f2"), ("m", "<f2"), ("q", "u1", 16)]), BLOCK, _q4_1),
    8: Packing(np.dtype([("d", "<f2"), ("q", "i1", 32)]), BLOCK, _q8_0),
}


def unpacked(data: memoryview, at: int, kind: int, shape: tuple[int, ...], what: str) -> Tensor:
    """The tensor whose blocks begin at byte `at` of `data`.

    Raises:
        ValueError: a type that is not known here, or the data ends before the tensor does.
    """
    if kind not in PACKINGS:
        raise ValueError(
            f"{what} is of ggml type {kind}; known are {', '.join(map(str, PACKINGS))}"
        )
    packing = PACKINGS[kind]
    size = math.prod(shape)
    if size % packing.numbers:
        raise ValueError(f"{what} has {size} numbers, which is no multiple of {packing.numbers}")
    count = size // packing.numbers
    if at + count * packing.block.itemsize > len(data):
        raise ValueError(f"{what} passes the end of the file")
    blocks = np.frombuffer(data, packing.block, count, at)
    return Tensor(shape, lambda: packing.unpack(blocks).reshape(shape))
