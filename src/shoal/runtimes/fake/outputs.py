"""What the fake runtime answers, in the form of the head that was asked for.

Rows of tokens depend on the token alone, so that items which share tokens are alike, as with a
real model that compares late.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.runtimes.fake.hashing import Vectors, vectors_of
from shoal.runtimes.fake.items import Items
from shoal.wire.outputs import Output

#: Width of a row unless the head's options say `dim`, or `labels`.
DEFAULT_DIM = 384
_DIMS = {"cross-encoder": 1}

RAGGED = frozenset({"colbert", "token-labels"})
SPARSE = frozenset({"splade", "lexical"})


def output_of(items: Items, options: dict[str, Any], seed: int) -> Output:
    """A row an item, one a token, or a weight for each distinct token, as `head` of `options` has."""
    head = options["head"]
    if head in SPARSE:
        return _terms(items, seed)
    dim = int(options.get("dim") or len(options.get("labels", ())) or _DIMS.get(head, DEFAULT_DIM))
    if head in RAGGED:
        rows = _rows(items.tokens, np.ones_like(items.tokens), dim, seed)
        return Output(rows, items.lengths.astype(np.int32))
    return Output(_rows(items.tokens, items.lengths, dim, seed))


def _rows(
    tokens: NDArray[np.integer[Any]], lengths: NDArray[np.integer[Any]], dim: int, seed: int
) -> Vectors:
    """Unit vectors; where one number is wanted, the first of two, since the only one would be ±1."""
    return vectors_of(tokens, lengths, max(2, dim), seed)[:, :dim]


def _terms(items: Items, seed: int) -> Output:
    owners = np.arange(len(items.lengths)).repeat(items.lengths)
    # Sorted by item, then token; one that stands in an item several times is one term.
    distinct = np.unique(np.stack([owners, items.tokens.astype(np.int64)], axis=1), axis=0)
    tokens = distinct[:, 1]
    weights = _rows(tokens, np.ones_like(tokens), 1, seed)[:, 0] + np.float32(1.5)
    lengths = np.bincount(distinct[:, 0], minlength=len(items.lengths)).astype(np.int32)
    return Output(weights, lengths, tokens.astype(np.int32))
