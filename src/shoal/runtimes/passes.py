"""Which items of a batch are computed together, and how what they gave goes back into their order.

Values only, without torch: kinds of runtimes share it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from shoal.wire.outputs import Output


def passes(
    ordered: NDArray[np.int64], lengths: NDArray[np.int64], pass_tokens: int
) -> Iterator[NDArray[np.int64]]:
    """Items in this order, of at most `pass_tokens` together; a longer one alone.

    One pass is filled after the other: full ones are of one size, for which kernels are kept.
    """
    ends = np.cumsum(lengths[ordered])
    start, done = 0, 0
    while start < len(ordered):
        stop = max(start + 1, int(np.searchsorted(ends, done + pass_tokens, side="right")))
        yield ordered[start:stop]
        start, done = stop, int(ends[stop - 1])


def restored(parts: Sequence[Output], order: Sequence[NDArray[np.int64]], items: int) -> Output:
    """The rows of `items` items; one that was in no pass has zeros, or no rows of its own.

    parts: what each pass gave. order: the places in the batch of each pass's items.
    """
    if not parts:
        return Output(np.zeros((items, 0), np.float32))
    places = np.concatenate(order)
    values = np.concatenate([part.values for part in parts])
    if parts[0].lengths is None:
        result = np.zeros((items, *values.shape[1:]), np.float32)
        result[places] = values
        return Output(result)
    given = np.concatenate([part.lengths for part in parts if part.lengths is not None])
    taken = _ragged_order(given, places)
    lengths = np.zeros(items, np.int32)
    lengths[places] = given
    if parts[0].indices is None:
        return Output(values[taken], lengths)
    indices = np.concatenate([part.indices for part in parts if part.indices is not None])
    return Output(values[taken], lengths, indices[taken])


def _ragged_order(lengths: NDArray[np.int32], places: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where the rows of the first item lie, then those of the second, ..."""
    counts = lengths.astype(np.int64)
    starts = np.cumsum(counts) - counts
    items = np.argsort(places)
    ends = np.cumsum(counts[items])
    within = np.arange(ends[-1]) - np.repeat(ends - counts[items], counts[items])
    order: NDArray[np.int64] = np.repeat(starts[items], counts[items]) + within
    return order
