"""Weights of an item's own tokens, from one linear unit (Chen et al., BGE M3, 2024).

A token weighs relu(unit(hidden)); one that stands in an item several times counts once, at its
heaviest. Reference: `FlagEmbedding.inference.embedder.encoder_only.m3`.
"""

from __future__ import annotations

from typing import Any

import msgspec
import torch
from torch import Tensor

from shoal.errors import ModelLoadFailed
from shoal.runtimes.torch.heads.base import Ground, Head, HeadOutput, read_options
from shoal.runtimes.torch.heads.projections import Projections
from shoal.runtimes.torch.packed import Packed


class LexicalOptions(msgspec.Struct, frozen=True):
    """`projection`: where the unit lies. `skip`: token ids that never weigh (special ones)."""

    projection: str = "sparse_linear"
    skip: tuple[int, ...] = ()


def lexical(options: dict[str, Any], ground: Ground) -> Head:
    """Sparse rows: the weights of an item's tokens, by token id."""
    asked = read_options(options, LexicalOptions)
    unit = Projections([asked.projection], ground.layers, ground.width)
    if unit.width != 1:
        raise ModelLoadFailed(
            f"head 'lexical' needs one number a token; '{asked.projection}' gives {unit.width}"
        )
    skip = torch.tensor(asked.skip, dtype=torch.int64, device=ground.layers.device)

    def compute(hidden: Tensor, packed: Packed) -> HeadOutput:
        used = packed.used
        weights = torch.relu(unit(hidden)[:used, 0].float())
        weights[torch.isin(packed.tokens[:used], skip)] = 0
        return heaviest(weights, packed, ground.vocabulary)

    return Head(compute)


def heaviest(weights: Tensor, packed: Packed, vocabulary: int) -> HeadOutput:
    """Weights of tokens [used] -> of each item's distinct ones the largest, where positive."""
    items = len(packed.rows)
    owners = torch.arange(items, device=weights.device)
    owners = owners.repeat_interleave(packed.lengths, output_size=packed.used)
    there = weights > 0
    keys = (owners * vocabulary + packed.tokens[: packed.used])[there]
    distinct, which = torch.unique(keys, return_inverse=True)
    rows = weights.new_zeros(len(distinct)).scatter_reduce_(0, which, weights[there], "amax")
    lengths = torch.bincount(distinct // vocabulary, minlength=items)
    return HeadOutput(rows, lengths, (distinct % vocabulary).int())
