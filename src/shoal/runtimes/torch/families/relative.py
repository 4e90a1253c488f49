"""Attention's bias by relative position, in buckets that widen with the distance (T5; MPNet).

Source: Raffel et al., 2020, section 2.1; `transformers.models.t5.modeling_t5`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from shoal.runtimes.torch.attention import Bias
from shoal.runtimes.torch.layers import Layers


def relative_bias(name: str, layers: Layers, *, farthest: int, longest: int) -> Bias:
    """The bias of items of up to `longest` tokens, as a table [buckets, heads] has it.

    Distances from `farthest` on share a bucket.
    """
    table = layers.tensor(name)
    # On the CPU always: how logarithms are rounded decides where a bucket ends.
    buckets = _buckets(torch.arange(1 - longest, longest), len(table), farthest)
    by_distance = table[buckets.to(table.device)].T.to(layers.dtype)
    square = layers.counted(toeplitz(by_distance)[None])

    def bias(query: Tensor, key: Tensor) -> Tensor:
        length = query.shape[2]
        return square[:, :, :length, :length]

    return bias


def bias_before(name: str, layers: Layers, *, farthest: int, longest: int) -> Bias:
    """The same of one token that sees itself and those before it, `longest` in all: of a query that
    stands at the last of its keys."""
    table = layers.tensor(name)
    buckets = _side(torch.arange(longest - 1, -1, -1), len(table), farthest)
    by_distance = table[buckets.to(table.device)].T.to(layers.dtype)
    row = layers.counted(by_distance[None, :, None].contiguous())

    def bias(query: Tensor, key: Tensor) -> Tensor:
        assert query.shape[2] == 1, "texts go on by one token"
        return row[..., longest - key.shape[2] :]

    return bias


def toeplitz(by_distance: Tensor) -> Tensor:
    """[..., 2 n - 1], by distance from 1 - n to n - 1 -> [..., n, n], by query and key.

    The distance is that from query to key. The upper left corner is that of fewer tokens.
    """
    length = (by_distance.shape[-1] + 1) // 2
    return by_distance.unfold(-1, length, 1).flip(-2)


def _buckets(distances: Tensor, buckets: int, farthest: int) -> Tensor:
    """int64 distances from query to key -> their buckets, of which each side has half."""
    half = buckets // 2
    return _side(distances.abs(), half, farthest) + half * (distances > 0)


def _side(away: Tensor, buckets: int, farthest: int) -> Tensor:
    """The buckets of one side: half are of one distance each."""
    exact = buckets // 2
    ratio = torch.log(away.clamp(min=1).float() / exact) / math.log(farthest / exact)
    far = (exact + (ratio * (buckets - exact)).long()).clamp(max=buckets - 1)
    return torch.where(away < exact, away, far)
