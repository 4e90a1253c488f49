"""Numbers packed as ggml packs them, block by block, and what each block stands for."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


def halves(numbers: NDArray[np.uint8]) -> bytes:
    """32 numbers of four bits: the first 16 in the low halves of the bytes."""
    return (numbers[:16] | numbers[16:] << 4).tobytes()


def random(kind: int, size: int, seed: int = 0) -> tuple[bytes, Floats]:
    """Bytes of a tensor of ggml type `kind`, and its values."""
    rng = np.random.default_rng(seed)
    if kind in (0, 1):
        values = rng.normal(size=size).astype("<f4" if kind == 0 else "<f2")
        return values.tobytes(), values.astype(np.float32)
    data, parts = b"", []
    for _ in range(size // 32):
        scale = np.float16(rng.uniform(0.01, 1))
        least = np.float16(rng.normal())
        if kind == 8:
            eights = rng.integers(-127, 128, 32).astype(np.int8)
            data += scale.tobytes() + eights.tobytes()
            parts.append(eights * np.float32(scale))
            continue
        fours = rng.integers(0, 16, 32).astype(np.uint8)
        numbers = fours.astype(np.float32)
        if kind == 2:
            data += scale.tobytes() + halves(fours)
            parts.append((numbers - 8) * np.float32(scale))
        else:
            data += scale.tobytes() + least.tobytes() + halves(fours)
            parts.append(numbers * np.float32(scale) + np.float32(least))
    return data, np.concatenate(parts).astype(np.float32)
