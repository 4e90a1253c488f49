"""Unit vectors that only a hash of an item decides: what the fake runtime answers.

Tests call the same functions to know the answer beforehand. Mixing is splitmix64's finaliser
(Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
"""

from __future__ import annotations

import functools
import hashlib
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
_U64 = NDArray[np.uint64]

DIGEST_BYTES = 32

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_M1 = np.uint64(0xBF58476D1CE4E5B9)
_M2 = np.uint64(0x94D049BB133111EB)


def seed_of(model: str, head: str) -> int:
    """Vectors of different models or heads differ."""
    return zlib.crc32(f"{model}/{head}".encode())


def pack_texts(texts: list[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Texts as tokens, one a byte of UTF-8: packed tokens and lengths."""
    encoded = [text.encode() for text in texts]
    lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
    return np.frombuffer(b"".join(encoded), np.uint8), lengths


def pack_media(files: list[bytes]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Files as the 32 bytes of their digests: hashing each byte of a large one takes too long."""
    digests = b"".join(hashlib.blake2b(file, digest_size=DIGEST_BYTES).digest() for file in files)
    return np.frombuffer(digests, np.uint8), np.full(len(files), DIGEST_BYTES, np.int64)


def vectors_of(
    tokens: NDArray[np.integer[Any]], lengths: NDArray[np.integer[Any]], dim: int, seed: int = 0
) -> Vectors:
    """One unit vector an item, [n_items, dim] float32, from packed `tokens` [total_tokens]."""
    hashes = (_hashes(tokens, lengths.astype(np.int64)) >> np.uint64(32)).astype(np.uint32)
    spread = (hashes[:, None] * _multipliers(dim, seed)).view(np.int32).astype(np.float32)
    norms = np.sqrt(np.einsum("ij,ij->i", spread, spread))
    spread /= np.maximum(norms, 1.0)[:, None]
    return spread


def _hashes(tokens: NDArray[np.integer[Any]], lengths: NDArray[np.int64]) -> _U64:
    """One hash an item, of its tokens and their places. All arithmetic wraps on purpose."""
    ends = np.cumsum(lengths)
    starts = ends - lengths
    places = np.arange(len(tokens)) - np.repeat(starts, lengths)
    mixed = _mix(
        (tokens.astype(np.uint64) + np.uint64(1)) * _GOLDEN + places.astype(np.uint64) * _M2
    )
    sums = np.zeros(len(tokens) + 1, np.uint64)
    np.cumsum(mixed, out=sums[1:])
    return _mix(sums[ends] - sums[starts] + (lengths.astype(np.uint64) + np.uint64(1)) * _GOLDEN)


def _mix(x: _U64) -> _U64:
    """In place."""
    x ^= x >> np.uint64(30)
    x *= _M1
    x ^= x >> np.uint64(27)
    x *= _M2
    x ^= x >> np.uint64(31)
    return x


@functools.cache
def _multipliers(dim: int, seed: int) -> NDArray[np.uint32]:
    """Odd, so that no two hashes share a product."""
    start = np.full(dim, seed, np.uint64) * _GOLDEN
    spread = _mix(start + (np.arange(dim, dtype=np.uint64) + np.uint64(1)) * _M1)
    return (spread >> np.uint64(32)).astype(np.uint32) | np.uint32(1)
