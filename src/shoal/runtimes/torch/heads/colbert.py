"""One unit vector a token, compared late (Khattab and Zaharia, ColBERT, 2020)."""

from __future__ import annotations

from typing import Any

import msgspec
from torch import Tensor
from torch.nn.functional import normalize

from shoal.runtimes.torch.heads.base import Ground, Head, HeadOutput, read_options
from shoal.runtimes.torch.heads.projections import Projections
from shoal.runtimes.torch.packed import Packed


class ColbertOptions(msgspec.Struct, frozen=True):
    """`projections`: where they lie, first to last; none for a bare encoder."""

    projections: tuple[str, ...] = ("linear",)


def colbert(options: dict[str, Any], ground: Ground) -> Head:
    """Ragged rows: every token's vector, those of special tokens too, of length 1."""
    asked = read_options(options, ColbertOptions)
    project = Projections(asked.projections, ground.layers, ground.width)

    def compute(hidden: Tensor, packed: Packed) -> HeadOutput:
        rows = normalize(project(hidden)[: packed.used].float(), dim=1)
        return HeadOutput(rows, packed.lengths.long())

    return Head(compute, bytes_per_token=3 * 4 * project.width)  # projected, float32, of length 1
