"""Heads: functions from packed hidden states to one row per item.

A head returns what the model says, in float32 and full width; normalising, cutting to fewer
dimensions and checking for NaN belong to the worker.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from shoal.errors import ModelLoadFailed, nearest
from shoal.runtimes.torch.packed import Packed

Head = Callable[[Tensor, Packed], Tensor]


def mean(hidden: Tensor, packed: Packed) -> Tensor:
    """[computed, hidden] -> [items, hidden]: the mean over an item's tokens."""
    parts = [
        hidden[g.start : g.stop].view(g.items, g.length, -1).mean(1, dtype=torch.float32)
        for g in packed.groups
    ]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def cls(hidden: Tensor, packed: Packed) -> Tensor:
    """[computed, hidden] -> [items, hidden]: an item's first token."""
    return hidden[packed.offsets[:-1]].float()


def last(hidden: Tensor, packed: Packed) -> Tensor:
    """[computed, hidden] -> [items, hidden]: an item's last token."""
    return hidden[packed.offsets[1:] - 1].float()


_POOLINGS: dict[str, Head] = {"mean": mean, "cls": cls, "last": last}


def dense(options: dict[str, Any]) -> Head:
    """One vector per item, pooled as ``options["pooling"]`` says (mean by default)."""
    pooling = options.get("pooling", "mean")
    if pooling not in _POOLINGS:
        raise ModelLoadFailed(
            f"head 'dense' has no pooling {pooling!r}; it has {', '.join(_POOLINGS)}"
            f"{nearest(str(pooling), _POOLINGS)}"
        )
    return _POOLINGS[pooling]


_HEADS: dict[str, Callable[[dict[str, Any]], Head]] = {"dense": dense}


def build(heads: dict[str, dict[str, Any]]) -> dict[str, Head]:
    """The heads of a model by name. Raises `ModelLoadFailed` for a head or pooling unknown."""
    for name in heads:
        if name not in _HEADS:
            raise ModelLoadFailed(
                f"the torch runtime has no head {name!r}; it has {', '.join(_HEADS)}"
                f"{nearest(name, _HEADS)}"
            )
    return {name: _HEADS[name](options) for name, options in heads.items()}
