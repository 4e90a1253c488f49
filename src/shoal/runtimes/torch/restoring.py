"""Puts what the passes of a batch gave back into the order that its items came in."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from shoal.runtimes.torch.heads.base import HeadOutput
from shoal.wire.outputs import Output


def restored(parts: list[HeadOutput], order: list[NDArray[np.int64]], items: int) -> Output:
    """The rows of `items` items; one that was in no pass has zeros, or no rows of its own.

    parts: what each pass gave. order: the places in the batch of each pass's items.
    """
    if not parts:
        return Output(np.zeros((items, 0), np.float32))
    places = np.concatenate(order)
    values = torch.cat([part.rows for part in parts]).cpu().numpy()
    if parts[0].lengths is None:
        result = np.zeros((items, *values.shape[1:]), np.float32)
        result[places] = values
        return Output(result)
    given = _joined([part.lengths for part in parts])
    taken = _ragged_order(given, places)
    lengths = np.zeros(items, np.int32)
    lengths[places] = given
    if parts[0].indices is None:
        return Output(values[taken], lengths)
    return Output(values[taken], lengths, _joined([part.indices for part in parts])[taken])


def _joined(parts: list[torch.Tensor | None]) -> NDArray[np.int32]:
    return torch.cat([part for part in parts if part is not None]).int().cpu().numpy()


def _ragged_order(lengths: NDArray[np.int32], places: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where the rows of the first item lie, then those of the second, ..."""
    counts = lengths.astype(np.int64)
    starts = np.cumsum(counts) - counts
    items = np.argsort(places)
    ends = np.cumsum(counts[items])
    within = np.arange(ends[-1]) - np.repeat(ends - counts[items], counts[items])
    order: NDArray[np.int64] = np.repeat(starts[items], counts[items]) + within
    return order
