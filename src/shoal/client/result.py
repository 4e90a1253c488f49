"""Joins the rows of many requests, in the caller's order, into one result.

Knows arrays and errors; nothing of requests, texts or sending.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from shoal.client.encoding import Row
from shoal.errors import ProtocolError, ShoalError
from shoal.values import EncodeParams


class Encoded(msgspec.Struct, frozen=True, eq=False):
    """What `encode` of n texts gave.

    Attributes:
        vectors: [n_ok, dim] of the dtype asked, one row for each text that has a vector.
        positions: int64 [n_ok], the text that each row belongs to.
        tokens: int64 [n], tokens computed for each text; 0 where it failed.
        truncated: bool [n], whether the text was cut to what the model takes.
        errors: position of a text -> why it has no vector.
    """

    model: str
    vectors: NDArray[Any]
    positions: NDArray[np.int64]
    tokens: NDArray[np.int64]
    truncated: NDArray[np.bool_]
    errors: dict[int, ShoalError]


class Collector:
    """Takes rows in any order of requests; each is copied, so that responses can be freed."""

    def __init__(self, model: str, count: int, params: EncodeParams) -> None:
        self._model = model
        self._vectors: NDArray[Any] | None = None
        self._empty = np.empty((0, params.dimensions or 0), params.dtype)
        self._have = np.zeros(count, np.bool_)
        self._tokens = np.zeros(count, np.int64)
        self._truncated = np.zeros(count, np.bool_)
        self._errors: dict[int, ShoalError] = {}
        self.done = 0

    def add(self, rows: Mapping[int, Row | ShoalError]) -> None:
        """Take in the rows of one request. Raises `ProtocolError` if vectors differ in form."""
        self.done += len(rows)
        for position, row in rows.items():
            if isinstance(row, ShoalError):
                self._errors[position] = row
            else:
                self._place(position, row)

    def _place(self, position: int, row: Row) -> None:
        if self._vectors is None:
            self._vectors = np.empty((len(self._have), *row.vector.shape), row.vector.dtype)
        vectors = self._vectors
        if row.vector.shape != vectors.shape[1:] or row.vector.dtype != vectors.dtype:
            raise ProtocolError(
                f"vectors of one model differ: {vectors.dtype}[{vectors.shape[1]}] and "
                f"{row.vector.dtype}[{row.vector.shape[0]}]"
            )
        vectors[position] = row.vector
        self._have[position] = True
        self._tokens[position] = row.tokens
        self._truncated[position] = row.truncated

    def result(self) -> Encoded:
        """All of it, in the caller's order."""
        vectors = self._empty if self._vectors is None else self._vectors
        if self._errors and len(vectors):
            vectors = vectors[self._have]
        return Encoded(
            model=self._model,
            vectors=vectors,
            positions=np.flatnonzero(self._have).astype(np.int64),
            tokens=self._tokens,
            truncated=self._truncated,
            errors=dict(sorted(self._errors.items())),
        )
