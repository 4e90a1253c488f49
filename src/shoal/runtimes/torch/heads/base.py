"""What a head is, and what one is built from.

A head returns what the model says, in float32 and full width; normalising, cutting to fewer
dimensions, thresholds, softmax and checking for NaN belong to the worker.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from torch import Tensor

from shoal.errors import ModelLoadFailed
from shoal.runtimes.torch.heads.layout import Layout
from shoal.runtimes.torch.layers import Layers
from shoal.runtimes.torch.packed import Packed

Options = TypeVar("Options", bound=msgspec.Struct)


class HeadOutput(msgspec.Struct, frozen=True):
    """What a head says of the items of one pass, in packed order; `wire.outputs.Output` as tensors.

    Attributes:
        rows: float32: one an item [items, ...]; or, with `lengths`, [sum of lengths, ...].
        lengths: int64 [items], rows of each item.
        indices: int32 [sum of lengths], the column that each value of a sparse output stands in.
    """

    rows: Tensor
    lengths: Tensor | None = None
    indices: Tensor | None = None


#: Hidden states [computed, width] and what they were packed from -> what the head says of them.
Compute = Callable[[Tensor, Packed], HeadOutput]


class Head(msgspec.Struct, frozen=True):
    """A head of a loaded model.

    Attributes:
        bytes_per_token: memory that one token of a pass needs besides its hidden state.
        bytes: memory that a pass of any size needs.
    """

    compute: Compute
    bytes_per_token: int = 0
    bytes: int = 0


class Ground(msgspec.Struct, frozen=True):
    """What a head is built on: the tensors of its model, and what its encoder gives.

    Attributes:
        width: of a hidden state.
        vocabulary: token ids run from 0 to here, exclusive.
    """

    layers: Layers
    layout: Layout
    width: int
    vocabulary: int


#: Options of a head, as `Load.heads` has them, and its ground -> the head. Raises `ModelLoadFailed`.
Build = Callable[[dict[str, Any], Ground], Head]


def read_options(options: dict[str, Any], kind: type[Options]) -> Options:
    """The options that concern the runtime; the card checked that there are no unknown ones."""
    try:
        return msgspec.convert(options, kind)
    except msgspec.ValidationError as error:
        head = options.get("head")
        raise ModelLoadFailed(f"options of head {head!r}: {error}") from None
