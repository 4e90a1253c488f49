"""Vectors of tokens: as a caller wants them, and compared late. Pure.

Late interaction: every token of a query looks for the token of the document that is most like it
(Khattab and Zaharia, ColBERT, 2020).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from shoal.tasks.dtypes import converted
from shoal.tasks.encode import scaled
from shoal.tasks.fde import fixed
from shoal.tasks.outputs import DENSE, FDE, MULTIVECTOR, SCORE, Rows
from shoal.values import EncodeParams
from shoal.wire.outputs import Row, Sparse

Vectors = NDArray[np.float32]


def unit(vectors: NDArray[Any]) -> Vectors:
    """Rows of length 1; those of zeros stay zeros."""
    norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    scaled_rows: Vectors = vectors / np.maximum(norms, 1e-12)[:, None]
    return scaled_rows


def kept(row: Row, keep: NDArray[np.bool_] | None) -> NDArray[Any]:
    """The vectors of an item's tokens, without those that get none."""
    vectors = cast(NDArray[Any], row)
    return vectors if keep is None else vectors[keep]


class TokenVectors(msgspec.Struct, frozen=True):
    """How an item is answered whose tokens have a vector each.

    Attributes:
        normalize: what the card says of its dense vector.
        keep: tokens that get a vector; None: all.
        query: whether the item is one: its fixed-dimensional encoding is another then.
    """

    params: EncodeParams
    normalize: bool
    keep: NDArray[np.bool_] | None = None
    query: bool = False

    def __call__(self, rows: Sequence[Rows], beside: Sequence[Rows] = ()) -> dict[str, Row]:
        """The outputs that were asked."""
        answer: dict[str, Row] = {}
        for name in self.params.outputs:
            answer.update(self._output(name, rows[0]))
        return answer

    def _output(self, name: str, row: Rows) -> dict[str, Any]:
        dtype = self.params.dtype
        if name == MULTIVECTOR:
            vectors = kept(row[MULTIVECTOR], self.keep)
            wanted = unit(vectors) if self.params.normalize is not False else vectors
            return converted(name, wanted, dtype)
        if name == FDE:
            vectors = unit(kept(row[MULTIVECTOR], self.keep))
            whole = fixed(vectors, query=self.query)[None]
        elif name == DENSE:
            pooled = cast(NDArray[np.float32], row[DENSE])[None]
            whole = scaled(pooled, self.params, self.normalize)
        else:
            assert isinstance(row[name], Sparse)
            return {name: row[name]}
        return {made: array[0] for made, array in converted(name, whole, dtype).items()}


class MaxSim(msgspec.Struct, frozen=True):
    """A document's score: over the query's tokens, the sum of the best likeness each finds.

    One of several sequences, such as the pages of a file, is as good as its best one.

    Attributes:
        keep: tokens of the document that are compared; None: all.
    """

    keep: NDArray[np.bool_] | None = None

    def __call__(self, rows: Sequence[Rows], beside: Sequence[Rows] = ()) -> dict[str, Row]:
        """One number, 0 where either has no tokens."""
        (query,) = beside
        said = unit(kept(query[MULTIVECTOR], None))
        return {SCORE: cast(Row, np.float32(max(self._score(said, row) for row in rows)))}

    def _score(self, said: Vectors, row: Rows) -> float:
        likeness = said @ unit(kept(row[MULTIVECTOR], self.keep)).T
        return float(likeness.max(axis=1, initial=-1.0).sum()) if likeness.size else 0.0


class Cosine(msgspec.Struct, frozen=True):
    """A document's score: the cosine of its dense vector and the query's; the best of several."""

    def __call__(self, rows: Sequence[Rows], beside: Sequence[Rows] = ()) -> dict[str, Row]:
        """One number."""
        (query,) = beside
        both = unit(np.stack([np.asarray(row[DENSE]) for row in (query, *rows)]))
        return {SCORE: cast(Row, np.float32((both[1:] @ both[0]).max()))}
