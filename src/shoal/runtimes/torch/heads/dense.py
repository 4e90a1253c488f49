"""One vector an item: its rows pooled, then the projections that the model was trained with."""

from __future__ import annotations

from typing import Any

import msgspec
from torch import Tensor

from shoal.errors import ModelLoadFailed
from shoal.runtimes.torch.heads.base import Ground, Head, HeadOutput, read_options
from shoal.runtimes.torch.heads.pooling import POOLINGS
from shoal.runtimes.torch.heads.projections import Projections
from shoal.runtimes.torch.packed import Packed
from shoal.spelling import nearest


class DenseOptions(msgspec.Struct, frozen=True):
    """`projections`: where they lie, first to last; see `projections`."""

    pooling: str = "mean"
    projections: tuple[str, ...] = ()


def dense(options: dict[str, Any], ground: Ground) -> Head:
    """Rows [items, width], of the last projection or the encoder."""
    asked = read_options(options, DenseOptions)
    pool = POOLINGS.get(asked.pooling)  # type: ignore[call-overload]
    if pool is None:
        raise ModelLoadFailed(
            f"head 'dense' has no pooling {asked.pooling!r}; it has {', '.join(POOLINGS)}"
            f"{nearest(asked.pooling, POOLINGS)}"
        )
    project = Projections(asked.projections, ground.layers, ground.width)

    def compute(hidden: Tensor, packed: Packed) -> HeadOutput:
        return HeadOutput(project(pool(hidden, packed)).float())

    return Head(compute)
