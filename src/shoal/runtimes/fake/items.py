"""The items of a batch as the fake runtime reads them, whatever its inputs are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.errors import InvalidRequest
from shoal.runtimes.fake.hashing import pack_texts
from shoal.runtimes.fake.options import FakeOptions, Marker
from shoal.wire.arrays import from_wire
from shoal.wire.socket import Run


@dataclass(frozen=True, slots=True)
class Items:
    """The items of a batch, packed; a text is the bytes of its UTF-8."""

    tokens: NDArray[np.integer[Any]]  # [total_tokens]
    lengths: NDArray[np.int64]  # [n_items]
    texts: list[str] | None

    def with_marker(self, marker: Marker) -> list[int]:
        """Positions of the items that hold `marker`."""
        if marker is None:
            return []
        if isinstance(marker, str):
            return [i for i, text in enumerate(self.texts or []) if marker in text]
        found = np.flatnonzero(self.tokens == marker)
        return sorted({int(i) for i in np.searchsorted(self.lengths.cumsum(), found, "right")})


def items_of(batch: Run, options: FakeOptions) -> Items:
    """Raises `InvalidRequest` if the batch lacks the inputs that the model was loaded for."""
    if options.inputs == "text":
        return _texts(batch)
    return _tokens(batch)


def _texts(batch: Run) -> Items:
    if batch.texts is None:
        raise InvalidRequest(f"'{batch.model}' was loaded for texts and none came")
    return Items(*pack_texts(batch.texts), batch.texts)


def _tokens(batch: Run) -> Items:
    if batch.tokens is None or batch.lengths is None:
        raise InvalidRequest(f"'{batch.model}' was loaded for tokens and none came")
    tokens, lengths = from_wire(batch.tokens), from_wire(batch.lengths).astype(np.int64)
    if lengths.sum() != len(tokens) or (lengths < 0).any():
        raise InvalidRequest(f"lengths sum to {lengths.sum()} but {len(tokens)} tokens came")
    return Items(tokens, lengths, None)
