"""Weights of vocabulary terms, from a masked-LM head (Formal et al., SPLADE v2, 2021).

A term weighs log(1 + relu(logit)) of the token that says it loudest; every token of an item
counts, special ones included, as in `sentence_transformers` (SpladePooling) and naver's own code.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import torch
from torch import Tensor

from shoal.errors import ModelLoadFailed
from shoal.runtimes.torch.heads.base import Ground, Head, HeadOutput, read_options
from shoal.runtimes.torch.heads.sparse import joined, nonzero
from shoal.runtimes.torch.heads.steps import Rows, Stack
from shoal.runtimes.torch.packed import Group, Packed, cut, rounded

#: Rows of logits that exist at a time: 256 over BERT's vocabulary are 31 MB in float32.
_ROWS = 256


class SpladeOptions(msgspec.Struct, frozen=True):
    """`activation`: ``log1p_relu`` takes the logarithm twice (OpenSearch's models)."""

    activation: Literal["relu", "log1p_relu"] = "relu"


def splade(options: dict[str, Any], ground: Ground) -> Head:
    """Sparse rows: the weights of an item's terms, by token id."""
    asked = read_options(options, SpladeOptions)
    layout = ground.layout.masked_lm
    if layout is None:
        raise ModelLoadFailed("head 'splade' needs a masked-LM head, which this family has not")
    layers = ground.layers
    transform = Stack(layout.transform, layers, ground.width)
    weight, bias = layout.decoder, layout.bias
    if layout.own is not None:
        own_weight, own_bias = layout.own
        weight = own_weight if own_weight in layers else weight
        bias = own_bias if own_bias in layers else bias
    layers.expect(weight, ground.vocabulary, transform.width)
    decode = layers.product([weight], [bias] if bias else [])
    logarithms = 2 if asked.activation == "log1p_relu" else 1

    def logits(rows: Tensor) -> Tensor:
        return decode(transform(rows))

    def compute(hidden: Tensor, packed: Packed) -> HeadOutput:
        parts = []
        for groups in cut(packed.groups, _ROWS):
            weights = torch.relu_(_loudest(hidden, groups, logits).float())
            for _ in range(logarithms):
                weights = weights.log1p_()
            parts.append(nonzero(weights))
        return joined(parts)

    return Head(compute, bytes=2 * _ROWS * ground.vocabulary * 4)  # logits, and their float32


def _loudest(hidden: Tensor, groups: list[Group], logits: Rows) -> Tensor:
    """[items, vocabulary]: of every term the largest logit that one of an item's tokens has."""
    start, stop = groups[0].start, groups[-1].stop
    if stop - start > _ROWS:  # one long item
        pieces = [logits(piece).amax(0) for piece in torch.split(hidden[start:stop], _ROWS)]
        return torch.stack(pieces).amax(0, keepdim=True)
    # Rows beyond the last item are computed for nothing, so that few row counts need kernels.
    said = logits(hidden[start : start + rounded(stop - start)])
    parts = [
        said[group.start - start : group.stop - start].view(group.items, group.length, -1).amax(1)
        for group in groups
    ]
    return parts[0] if len(parts) == 1 else torch.cat(parts)
