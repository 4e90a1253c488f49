"""Logits of labels, of a whole sequence or of each of its tokens, as a family lays them out."""

from __future__ import annotations

from typing import Any

import msgspec
from torch import Tensor

from shoal.errors import ModelLoadFailed
from shoal.runtimes.torch.heads.base import Ground, Head, HeadOutput, read_options
from shoal.runtimes.torch.heads.layout import Steps
from shoal.runtimes.torch.heads.pooling import POOLINGS
from shoal.runtimes.torch.heads.steps import Stack
from shoal.runtimes.torch.packed import Packed


class LabelOptions(msgspec.Struct, frozen=True):
    """`labels`: by index; none: as many as the model has."""

    labels: tuple[str, ...] = ()


def sequence_labels(options: dict[str, Any], ground: Ground) -> Head:
    """Rows [items, labels]; of a cross-encoder, which reads a pair as one sequence, its scores."""
    layout = ground.layout.sequence
    if layout is None:
        raise ModelLoadFailed("this family has no classifier of sequences")
    pool = POOLINGS[layout.pooling]
    classify = _classifier(layout.steps, options, ground)

    def compute(hidden: Tensor, packed: Packed) -> HeadOutput:
        return HeadOutput(classify(pool(hidden, packed)).float())

    return Head(compute)


def token_labels(options: dict[str, Any], ground: Ground) -> Head:
    """Ragged rows: [tokens, labels], special tokens included."""
    layout = ground.layout.tokens
    if layout is None:
        raise ModelLoadFailed("this family has no classifier of tokens")
    classify = _classifier(layout, options, ground)

    def compute(hidden: Tensor, packed: Packed) -> HeadOutput:
        return HeadOutput(classify(hidden)[: packed.used].float(), packed.lengths.long())

    return Head(compute, bytes_per_token=classify.bytes_per_row)


def _classifier(steps: Steps, options: dict[str, Any], ground: Ground) -> Stack:
    labels = read_options(options, LabelOptions).labels
    classify = Stack(steps, ground.layers, ground.width)
    if labels and len(labels) != classify.width:
        raise ModelLoadFailed(
            f"the card says {len(labels)} labels and the model has {classify.width}"
        )
    return classify
