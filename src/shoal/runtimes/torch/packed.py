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

from shoal.runtimes.batch import Beginning
from shoal.runtimes.passes import passes

#: Row counts of a pass are rounded up to one of 16 per power of two, which computes 2 % more
#: rows: oneDNN compiles kernels for every new row count, 2 ms and 3 MB a model (see `runtime`).
_SIZES_PER_OCTAVE_LOG2 = 4


class Group(msgspec.Struct, frozen=True):
    """`items` neighbours of `length` tokens each, in rows [start, stop); of each item's tokens the
    first `seen` are attended to, 0: all."""

    start: int
    stop: int
    items: int
    length: int
    seen: int = 0


class Packed(msgspec.Struct, frozen=True):
    """Some items of a batch, packed.

    Attributes:
        rows: their positions in the batch, in packed order (by length, ascending).
        tokens, positions: int64 [computed]; positions count from 0 in every item. The rows
            past the last group are filling.
        offsets: int32 [items + 1], where each item starts, and the end of the last.
        types: int64 [computed], 0 in an item's first segment and 1 in its second; None where no
            item has a second one.
        media: [items, ...], where the items are images or sound, which have no tokens (these are
            0); or the images that stand among the tokens of the items, in packed order.
        marks: uint8 [used], the tokens that stand for words and labels (see `Run`); None: there are
            none. It stays on the host: it says how much is computed.
        beginnings: of each item of sound; None: as the model does by itself.
    """

    rows: NDArray[np.int64]
    tokens: Tensor
    positions: Tensor
    offsets: Tensor
    groups: list[Group]
    longest: int
    types: Tensor | None = None
    media: Tensor | None = None
    marks: NDArray[np.uint8] | None = None
    beginnings: list[Beginning] | None = None

    @property
    def computed(self) -> int:
        return self.tokens.shape[0]

    @property
    def used(self) -> int:
        """Rows that are no filling."""
        return self.groups[-1].stop

    @property
    def lengths(self) -> Tensor:
        """int32 [items], tokens of each."""
        return self.offsets.diff()

    @property
    def pooled(self) -> Packed:
        """The same items where each has become one row."""
        items = len(self.rows)
        return msgspec.structs.replace(
            self,
            offsets=torch.arange(items + 1, dtype=torch.int32, device=self.offsets.device),
            groups=[Group(0, items, items, 1)],
            longest=1,
        )


def pack(
    tokens: NDArray[np.int32],
    lengths: NDArray[np.int64],
    rows: NDArray[np.int64],
    *,
    pass_tokens: int,
    device: torch.device,
    splits: NDArray[np.int32] | None = None,
    seen: NDArray[np.int32] | None = None,
    marks: NDArray[np.uint8] | None = None,
) -> list[Packed]:
    """Packs the given items of a batch into passes of at most `pass_tokens` (or one item).

    tokens: [sum of lengths], the items of the batch end to end. lengths: [items]. rows: the
    items to take. splits: [items], tokens of the first of two segments, 0 where there is one.
    seen: [items], the first tokens that are attended to, 0 for all. marks: of each token.
    """
    if seen is None or not seen.any():
        seen = None
        ordered = rows[np.argsort(lengths[rows], kind="stable")]
    else:
        ordered = rows[np.lexsort((seen[rows], lengths[rows]))]
    starts = np.cumsum(lengths) - lengths
    return [
        _pack_one(tokens, starts, lengths, chosen, device, splits, seen, marks)
        for chosen in passes(ordered, lengths, pass_tokens)
    ]


class Filling(msgspec.Struct, frozen=True):
    """Items of fewer tokens are filled up to `length` with `token`, as their model was trained."""

    length: int
    token: int


def filled(
    tokens: NDArray[np.int32], lengths: NDArray[np.int64], rows: NDArray[np.int64], filling: Filling
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Tokens and lengths of a batch in which only the items `rows` are left, filled up."""
    starts = np.cumsum(lengths) - lengths
    whole = np.full((len(rows), filling.length), filling.token, np.int32)
    for place, row in zip(whole, rows.tolist(), strict=True):
        place[: lengths[row]] = tokens[starts[row] : starts[row] + lengths[row]]
    left = np.zeros_like(lengths)
    left[rows] = filling.length
    return whole.reshape(-1), left


def cut(groups: list[Group], rows: int) -> Iterator[list[Group]]:
    """Neighbouring items of at most `rows` rows together, as groups; a longer item alone."""
    chunk: list[Group] = []
    room = rows
    for group in groups:
        start = group.start
        while start < group.stop:
            items = min(room // group.length, (group.stop - start) // group.length)
            if not chunk:
                items = max(1, items)
            if items > 0:
                stop = start + items * group.length
                chunk.append(Group(start, stop, items, group.length))
                room -= stop - start
                start = stop
            else:
                yield chunk
                chunk, room = [], rows
    if chunk:
        yield chunk


def rounded(rows: int) -> int:
    """The number of rows that is computed where so many are needed."""
    step = 1 << max(0, rows.bit_length() - 1 - _SIZES_PER_OCTAVE_LOG2)
    return -(-rows // step) * step


def _pack_one(
    tokens: NDArray[np.int32],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    rows: NDArray[np.int64],
    device: torch.device,
    splits: NDArray[np.int32] | None,
    seen: NDArray[np.int32] | None,
    marks: NDArray[np.uint8] | None,
) -> Packed:
    chosen = lengths[rows]
    offsets = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(chosen, out=offsets[1:])
    used = int(offsets[-1])
    filled = np.zeros((2, rounded(used)), np.int64)
    positions = np.arange(used) - np.repeat(offsets[:-1], chosen)
    taken = np.repeat(starts[rows], chosen) + positions
    filled[0, :used] = tokens[taken]
    filled[1, :used] = positions
    both = _to(filled, device)
    return Packed(
        rows=rows,
        tokens=both[0],
        positions=both[1],
        offsets=_to(offsets.astype(np.int32), device),
        groups=_groups(offsets, chosen, None if seen is None else seen[rows]),
        longest=int(chosen[-1]),
        types=None if splits is None else _types(splits[rows], chosen, filled[1], device),
        marks=None if marks is None else marks[taken],
    )


def _types(
    splits: NDArray[np.int32],
    lengths: NDArray[np.int64],
    positions: NDArray[np.int64],
    device: torch.device,
) -> Tensor | None:
    if not splits.any():
        return None
    firsts = np.repeat(np.where(splits == 0, lengths, splits), lengths)
    types = np.zeros(len(positions), np.int64)
    types[: len(firsts)] = positions[: len(firsts)] >= firsts
    return _to(types, device)


def _groups(
    offsets: NDArray[np.int64], lengths: NDArray[np.int64], seen: NDArray[np.int32] | None
) -> list[Group]:
    changes = np.diff(lengths) != 0
    if seen is not None:
        changes |= np.diff(seen) != 0
    cuts = [0, *(np.flatnonzero(changes) + 1).tolist(), len(lengths)]
    at, of = offsets.tolist(), lengths.tolist()
    first = [0] * len(of) if seen is None else seen.tolist()
    return [Group(at[a], at[b], b - a, of[a], first[a]) for a, b in pairwise(cuts)]


def _to(array: NDArray[Any], device: torch.device) -> Tensor:
    return torch.from_numpy(array).to(device, non_blocking=True)
