"""Lays the items of a batch end to end, shortest first, so that no padding is computed.

Decides order, passes and groups; knows neither models nor devices' kernels. Items of equal
length lie side by side and form a *group*, which attention and pooling see as a dense
[items, length, ...] view of the packed rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

#: Row counts of a pass are rounded up to one of 16 per power of two, which computes 2 % more
#: rows: oneDNN compiles kernels for every new row count, 2 ms and 3 MB a model (see `runtime`).
_SIZES_PER_OCTAVE_LOG2 = 4


class Group(msgspec.Struct, frozen=True):
    """`items` neighbours of `length` tokens each, in rows [start, stop)."""

    start: int
    stop: int
    items: int
    length: int


class Packed(msgspec.Struct, frozen=True):
    """Some items of a batch, packed.

    Attributes:
        rows: their positions in the batch, in packed order (by length, ascending).
        tokens, positions: int64 [computed]; positions count from 0 in every item. The rows
            past the last group are filling.
        offsets: int32 [items + 1], where each item starts, and the end of the last.
    """

    rows: NDArray[np.int64]
    tokens: Tensor
    positions: Tensor
    offsets: Tensor
    groups: list[Group]
    longest: int

    @property
    def computed(self) -> int:
        return self.tokens.shape[0]


def pack(
    tokens: NDArray[np.int32],
    lengths: NDArray[np.int64],
    rows: NDArray[np.int64],
    *,
    pass_tokens: int,
    device: torch.device,
) -> list[Packed]:
    """Packs the given items of a batch into passes of at most `pass_tokens` (or one item).

    tokens: [sum of lengths], the items of the batch end to end. lengths: [items]. rows: the
    items to take.
    """
    ordered = rows[np.argsort(lengths[rows], kind="stable")]
    starts = np.cumsum(lengths) - lengths
    return [
        _pack_one(tokens, starts, lengths, chosen, device)
        for chosen in _passes(ordered, lengths, pass_tokens)
    ]


def _passes(
    ordered: NDArray[np.int64], lengths: NDArray[np.int64], pass_tokens: int
) -> Iterator[NDArray[np.int64]]:
    """Fills one pass after the other: full ones are of one size, for which kernels are kept."""
    ends = np.cumsum(lengths[ordered])
    start, done = 0, 0
    while start < len(ordered):
        stop = max(start + 1, int(np.searchsorted(ends, done + pass_tokens, side="right")))
        yield ordered[start:stop]
        start, done = stop, int(ends[stop - 1])


def _pack_one(
    tokens: NDArray[np.int32],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    rows: NDArray[np.int64],
    device: torch.device,
) -> Packed:
    chosen = lengths[rows]
    offsets = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(chosen, out=offsets[1:])
    used = int(offsets[-1])
    filled = np.zeros((2, _rounded(used)), np.int64)
    positions = np.arange(used) - np.repeat(offsets[:-1], chosen)
    filled[0, :used] = tokens[np.repeat(starts[rows], chosen) + positions]
    filled[1, :used] = positions
    both = _to(filled, device)
    return Packed(
        rows=rows,
        tokens=both[0],
        positions=both[1],
        offsets=_to(offsets.astype(np.int32), device),
        groups=_groups(offsets, chosen),
        longest=int(chosen[-1]),
    )


def _groups(offsets: NDArray[np.int64], lengths: NDArray[np.int64]) -> list[Group]:
    edges = np.flatnonzero(np.diff(lengths)) + 1
    cuts = [0, *edges.tolist(), len(lengths)]
    at, of = offsets.tolist(), lengths.tolist()
    return [Group(at[a], at[b], b - a, of[a]) for a, b in pairwise(cuts)]


def _rounded(rows: int) -> int:
    step = 1 << max(0, rows.bit_length() - 1 - _SIZES_PER_OCTAVE_LOG2)
    return -(-rows // step) * step


def _to(array: NDArray[Any], device: torch.device) -> Tensor:
    return torch.from_numpy(array).to(device, non_blocking=True)
