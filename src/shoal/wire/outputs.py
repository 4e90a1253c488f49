"""What a head answers, item by item: a row each, some rows each, or a few terms each.

Decides how rows of any of these three kinds lie end to end in a message. Values only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from shoal.errors import ProtocolError
from shoal.wire.arrays import Array, from_wire, to_wire


class Sparse(msgspec.Struct, frozen=True):
    """Terms of one item: `indices` int32 [n] and `values` [n]; what is not named is 0."""

    indices: NDArray[np.int32]
    values: NDArray[Any]


#: What one item got of one head: [dim], or [n, dim] where the head is ragged, or terms.
Row = NDArray[Any] | Sparse


class Output(msgspec.Struct, frozen=True):
    """The rows of one head for some items.

    Attributes:
        values: [items, ...]; with `lengths`: [sum(lengths), ...], the items end to end.
        lengths: int32 [items], of a ragged or sparse head.
        indices: int32 [sum(lengths)], of a sparse head.
    """

    values: NDArray[Any]
    lengths: NDArray[np.int32] | None = None
    indices: NDArray[np.int32] | None = None

    @property
    def items(self) -> int:
        return len(self.values) if self.lengths is None else len(self.lengths)

    def rows(self) -> Sequence[Row]:
        """One entry an item, views of the arrays."""
        if self.lengths is None:
            return cast(Sequence[Row], self.values)
        ends = np.cumsum(self.lengths)[:-1]
        values = np.split(self.values, ends)
        if self.indices is None:
            return values
        return list(map(Sparse, np.split(self.indices, ends), values))


def joined(rows: list[Row], ragged: bool) -> Output:
    """Rows of one head, at least one, as they travel. `ragged`: each has a number of rows itself."""
    if isinstance(rows[0], Sparse):
        terms = cast(list[Sparse], rows)
        return Output(
            np.concatenate([row.values for row in terms]),
            _lengths(row.values for row in terms),
            np.concatenate([row.indices for row in terms]),
        )
    arrays = cast(list[NDArray[Any]], rows)
    if ragged:
        return Output(np.concatenate(arrays), _lengths(arrays))
    return Output(arrays[0][None] if len(arrays) == 1 else np.stack(arrays))


def _lengths(parts: Iterable[NDArray[Any]]) -> NDArray[np.int32]:
    return np.fromiter(map(len, parts), np.int32)


def read_outputs(
    arrays: dict[str, Array], lengths: dict[str, Array], indices: dict[str, Array], items: int
) -> dict[str, Output]:
    """The outputs in a message that should hold so many items.

    Raises:
        ProtocolError: arrays that do not add up to that.
    """
    outputs = {
        head: Output(
            from_wire(array),
            from_wire(lengths[head]) if head in lengths else None,
            from_wire(indices[head]) if head in indices else None,
        )
        for head, array in arrays.items()
    }
    for head, output in outputs.items():
        if (wrong := _wrong(output, items)) is not None:
            raise ProtocolError(f"output '{head}' of {items} items {wrong}")
    return outputs


def _wrong(output: Output, items: int) -> str | None:
    values, lengths, indices = output.values, output.lengths, output.indices
    if not values.ndim:
        return "is a single number"
    if lengths is None:
        if indices is not None:
            return "has indices and no lengths"
        return None if len(values) == items else f"has {len(values)} rows"
    if lengths.ndim != 1 or len(lengths) != items or (lengths < 0).any():
        return f"has lengths of shape {lengths.shape}"
    if int(lengths.sum(dtype=np.int64)) != len(values):
        return f"has {len(values)} rows and lengths that add up to {lengths.sum()}"
    if indices is not None and indices.shape != (len(values),):
        return f"has {len(values)} values and indices of shape {indices.shape}"
    return None


def to_wires(outputs: dict[str, Output]) -> tuple[dict[str, Array], ...]:
    """Arrays, lengths and indices by head, as a message carries them."""
    lengths = {head: to_wire(o.lengths) for head, o in outputs.items() if o.lengths is not None}
    indices = {head: to_wire(o.indices) for head, o in outputs.items() if o.indices is not None}
    return {head: to_wire(o.values) for head, o in outputs.items()}, lengths, indices
