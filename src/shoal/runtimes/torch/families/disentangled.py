"""DeBERTa's attention: tokens also look at how far others are, and distances at tokens.

To the product of query and key are added those of a token's query with the key of a distance, and
of a token's key with the query of a distance. Source: He et al., 2020, section 3.1;
`transformers.models.deberta_v2.modeling_deberta_v2`.
"""

from __future__ import annotations

import msgspec
import torch
from torch import Tensor

from shoal.runtimes.torch.families.relative import toeplitz


class Distances(msgspec.Struct, frozen=True):
    """How distances between tokens fall into slots.

    Attributes:
        span: slots to either side.
        buckets: distances up to half of it have a slot each, further ones share by logarithm;
            0: all up to `span` have one.
        farthest: distance at which the logarithms end.
    """

    span: int
    buckets: int
    farthest: int

    def slots(self, longest: int) -> Tensor:
        """int64 [2 longest - 1]: of the distances from key to query, 1 - longest and up."""
        # On the CPU always: how logarithms are rounded decides where a bucket ends.
        distances = torch.arange(1 - longest, longest)
        if self.buckets:
            distances = self._bucketed(distances)
        return (distances + self.span).clamp(0, 2 * self.span - 1)

    def _bucketed(self, distances: Tensor) -> Tensor:
        half = self.buckets // 2
        away = distances.abs().clamp(min=half)
        widest = torch.log(torch.tensor((self.farthest - 1) / half))
        shared = torch.ceil(torch.log(away / half) / widest * (half - 1)).long() + half
        return torch.where(away <= half, distances, shared * distances.sign())


class Slots:
    """Which slot a pair of tokens falls into, for items of up to `longest` tokens."""

    def __init__(self, distances: Distances, longest: int, device: torch.device) -> None:
        by_distance = distances.slots(longest)
        self._of = by_distance.tolist()
        self._longest = longest
        # By query and key, where a distance counts from key to query: the other way round.
        self.square = toeplitz(by_distance.flip(0)).to(device)

    def seen(self, length: int) -> tuple[int, int]:
        """The first slot that items of this length need, and the one after the last."""
        middle = self._longest - 1
        return self._of[middle - length + 1], self._of[middle + length - 1] + 1


class Disentangled:
    """One layer's `Bias`.

    keys, queries: [heads, width, slots] of distances, scaled as the products are; either may be
    missing.
    """

    def __init__(self, slots: Slots, keys: Tensor | None, queries: Tensor | None) -> None:
        self._slots, self._keys, self._queries = slots, keys, queries

    def __call__(self, query: Tensor, key: Tensor) -> Tensor:
        length = query.shape[2]
        first, stop = self._slots.seen(length)
        index = self._slots.square[:length, :length] - first
        parts = []
        if self._keys is not None:
            parts.append(_gathered(query @ self._keys[:, :, first:stop], index))
        if self._queries is not None:
            by_key = _gathered(key @ self._queries[:, :, first:stop], index.T)
            parts.append(by_key.transpose(2, 3))
        return parts[0] if len(parts) == 1 else parts[0].add_(parts[1])


def _gathered(products: Tensor, index: Tensor) -> Tensor:
    return products.gather(3, index.expand(*products.shape[:3], -1))
