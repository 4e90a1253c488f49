"""Fixed-dimensional encodings: one vector for an item's many, whose product is about their MaxSim.

The method is MUVERA's (Dhulipala et al., MUVERA: Multi-Vector Retrieval via Fixed Dimensional
Encodings, 2024; reference: google/graph-mining, ``fixed_dimensional_encoding.cc``): random planes
part the space; in each part a query's vectors are summed and a document's averaged, a part without
any takes the nearest of the document. This is repeated with other planes, and narrowed by random
signs. Pure.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]

#: The paper's setting of 10,240 numbers: 20 repetitions of 2^5 parts, each narrowed to 16.
REPETITIONS, PLANES, NARROWED = 20, 5, 16
PARTS = 2**PLANES
WIDTH = REPETITIONS * PARTS * NARROWED
#: Whoever stored encodings needs the same planes for ever: of the generator that numpy keeps frozen.
_SEED = 42


def fixed(vectors: Vectors, *, query: bool) -> Vectors:
    """[n, dim] -> [WIDTH]: the product of a query's with a document's is about their MaxSim."""
    if not len(vectors):
        return np.zeros(WIDTH, np.float32)
    planes, signs = _random(vectors.shape[1])
    sides = (vectors @ planes).reshape(-1, REPETITIONS, PLANES) > 0
    parts = sides @ (1 << np.arange(PLANES))  # [n, repetitions]
    narrowed = (vectors @ signs).reshape(-1, REPETITIONS, NARROWED)
    cells = (parts + PARTS * np.arange(REPETITIONS)).ravel()
    sums: NDArray[np.float64] = np.stack(
        [
            np.bincount(cells, column, REPETITIONS * PARTS)
            for column in narrowed.reshape(-1, NARROWED).T
        ],
        axis=1,
    )
    if not query:
        counts = np.bincount(cells, minlength=REPETITIONS * PARTS)
        sums /= np.maximum(counts, 1)[:, None]
        empty = np.flatnonzero(counts == 0)
        sums[empty] = _nearest(parts, narrowed, empty)
    whole: Vectors = (sums.ravel() / np.sqrt(REPETITIONS)).astype(np.float32)
    return whole


def _nearest(parts: NDArray[np.int64], narrowed: Vectors, cells: NDArray[np.int64]) -> Vectors:
    """For each of these cells, the first vector with the fewest planes in between: [cells, narrowed]."""
    repetition, part = np.divmod(cells, PARTS)
    between = _distances()[parts[:, repetition], part]  # [n, cells]
    found: Vectors = narrowed[between.argmin(axis=0), repetition]
    return found


@cache
def _distances() -> NDArray[np.uint8]:
    """Planes between two parts: [parts, parts]."""
    parts = np.arange(PARTS)
    bits = (parts[:, None] ^ parts)[..., None] >> np.arange(PLANES) & 1
    distances: NDArray[np.uint8] = bits.sum(axis=2).astype(np.uint8)
    return distances


@cache
def _random(dim: int) -> tuple[Vectors, Vectors]:
    """Planes [dim, repetitions * planes], signs [dim, repetitions * narrowed].

    Of each repetition, every dimension goes into one of the narrowed ones, with a random sign.
    """
    chance = np.random.RandomState(_SEED)
    planes = chance.standard_normal((dim, REPETITIONS * PLANES)).astype(np.float32)
    signs = np.zeros((dim, REPETITIONS, NARROWED), np.float32)
    where = chance.randint(NARROWED, size=(dim, REPETITIONS))
    sign = 2 * chance.randint(2, size=(dim, REPETITIONS)) - 1
    rows, columns = np.indices((dim, REPETITIONS))
    signs[rows, columns, where] = sign
    return planes, signs.reshape(dim, -1)
