"""How the rows of an item become one: [computed, width] -> [items, width] float32."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from shoal.runtimes.torch.heads.layout import Pooling
from shoal.runtimes.torch.packed import Packed

Pool = Callable[[Tensor, Packed], Tensor]


def by_group(reduce: Callable[[Tensor], Tensor], rows: Tensor, packed: Packed) -> Tensor:
    """`reduce`: [items, length, width] -> [items, ...], over items of one length at a time."""
    parts = [
        reduce(rows[group.start : group.stop].view(group.items, group.length, -1))
        for group in packed.groups
    ]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def mean(hidden: Tensor, packed: Packed) -> Tensor:
    """The mean over an item's tokens."""
    return by_group(lambda group: group.mean(1, dtype=torch.float32), hidden, packed)


def largest(hidden: Tensor, packed: Packed) -> Tensor:
    """In each column the largest of an item's tokens."""
    return by_group(lambda group: group.amax(1), hidden, packed).float()


def first(hidden: Tensor, packed: Packed) -> Tensor:
    """An item's first token."""
    return hidden[packed.offsets[:-1]].float()


def last(hidden: Tensor, packed: Packed) -> Tensor:
    """An item's last token."""
    return hidden[packed.offsets[1:] - 1].float()


POOLINGS: dict[Pooling, Pool] = {"mean": mean, "cls": first, "last": last, "max": largest}
