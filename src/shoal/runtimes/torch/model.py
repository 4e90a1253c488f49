"""One resident model: a family's encoder, its heads, and how a batch runs through them.

Decides which items can be computed at all and in how many passes; knows nothing of other models
and no message but `Load`.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shoal.errors import (
    ErrorInfo,
    InvalidItem,
    InvalidRequest,
    ModelLoadFailed,
    TooManyTokens,
    nearest,
)
from shoal.runtimes.torch import heads
from shoal.runtimes.torch.families.base import Encoder, Family
from shoal.runtimes.torch.families.bert import load_bert
from shoal.runtimes.torch.packed import pack
from shoal.wire.socket import Load

#: Family name on a card -> how it loads.
FAMILIES: dict[str, Family] = {"bert": load_bert}

_DTYPES: dict[str, torch.dtype] = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}

#: Tokens of one pass: they bound its activations. On CPU 512 to 2,048 measure alike on mixed
#: lengths, 256 and 8,192 are 4 to 9 % slower; texts of 256 tokens like 2,048 best by 5 %.
_PASS_TOKENS_CPU = 2048
_PASS_TOKENS_CUDA = 16384


class Outputs(msgspec.Struct, frozen=True):
    """`arrays`: head -> [items, ...] float32, zeros where an item failed; `failed`: why."""

    arrays: dict[str, NDArray[np.float32]]
    computed_tokens: int
    failed: dict[int, ErrorInfo]


class Model:
    """A loaded model on one device."""

    def __init__(self, load: Load, device: torch.device) -> None:
        """Reads the weights. Raises `ModelLoadFailed` with the reason."""
        self._name = load.model
        self._device = device
        self._heads = heads.build(load.heads)
        self._encoder = _load_encoder(load, device)
        self._max_tokens = load.max_tokens
        self.threads = load.threads
        self._pass_tokens = _PASS_TOKENS_CUDA if device.type == "cuda" else _PASS_TOKENS_CPU

    @property
    def bytes(self) -> int:
        """Bytes of its tensors, and of the activations of its largest pass."""
        reserve_tokens = max(self._pass_tokens, self._max_tokens)
        encoder = self._encoder
        return encoder.parameter_bytes + reserve_tokens * encoder.activation_bytes_per_token

    def warm_up(self) -> None:
        """One pass of one item, so that the first request does not pay for first uses."""
        self.run(np.zeros(1, np.int32), np.ones(1, np.int64), list(self._heads))

    def run(
        self, tokens: NDArray[np.int32], lengths: NDArray[np.int64], names: list[str]
    ) -> Outputs:
        """Rows for every item. tokens: [sum of lengths], end to end; lengths: [items].

        Raises `InvalidRequest` where the batch makes no sense as a whole.
        """
        chosen = self._choose(names)
        failed = self._unfit(tokens, lengths)
        fit = np.array([item for item in range(len(lengths)) if item not in failed], np.int64)
        passes = pack(tokens, lengths, fit, pass_tokens=self._pass_tokens, device=self._device)
        rows: dict[str, list[Tensor]] = {name: [] for name in chosen}
        with torch.inference_mode():
            for packed in passes:
                hidden = self._encoder.forward(packed)
                for name, head in chosen.items():
                    rows[name].append(head(hidden, packed))
        order = [packed.rows for packed in passes]
        return Outputs(
            {name: _in_order(parts, order, len(lengths)) for name, parts in rows.items()},
            sum(packed.computed for packed in passes),
            failed,
        )

    def _choose(self, names: list[str]) -> dict[str, heads.Head]:
        for name in names:
            if name not in self._heads:
                raise InvalidRequest(
                    f"model {self._name} was loaded without head {name!r}; it has "
                    f"{', '.join(self._heads)}{nearest(name, self._heads)}"
                )
        return {name: self._heads[name] for name in names}

    def _unfit(self, tokens: NDArray[np.int32], lengths: NDArray[np.int64]) -> dict[int, ErrorInfo]:
        """Why items cannot be computed; what is wrong with one never touches its neighbours."""
        failed: dict[int, ErrorInfo] = {}
        for item in np.flatnonzero(lengths == 0).tolist():
            failed[item] = InvalidItem("this item has no tokens").info
        for item in np.flatnonzero(lengths > self._max_tokens).tolist():
            failed[item] = TooManyTokens(
                f"this item has {lengths[item]} tokens; {self._name} takes {self._max_tokens}"
            ).info
        vocabulary = self._encoder.vocabulary
        strange = np.flatnonzero((tokens < 0) | (tokens >= vocabulary))
        owners = np.searchsorted(np.cumsum(lengths), strange, side="right")
        for item, token in zip(owners.tolist(), tokens[strange].tolist(), strict=True):
            failed[item] = InvalidItem(
                f"this item has token id {token}; {self._name} knows 0 to {vocabulary - 1}"
            ).info
        return failed


def _in_order(
    parts: list[Tensor], order: list[NDArray[np.int64]], items: int
) -> NDArray[np.float32]:
    if not parts:
        return np.zeros((items, 0), np.float32)
    computed = torch.cat(parts).cpu().numpy()
    result = np.zeros((items, *computed.shape[1:]), np.float32)
    result[np.concatenate(order)] = computed
    return result


def _load_encoder(load: Load, device: torch.device) -> Encoder:
    family = FAMILIES.get(load.family)
    if family is None:
        raise ModelLoadFailed(
            f"the torch runtime has no family {load.family!r}; it has {', '.join(FAMILIES)}"
            f"{nearest(load.family, FAMILIES)}"
        )
    encoder = family(Path(load.path), _dtype(load.dtype, device), device)
    if not 0 < load.max_tokens <= encoder.max_tokens:
        raise ModelLoadFailed(
            f"max_tokens is {load.max_tokens}, but the model's positions allow 1 to "
            f"{encoder.max_tokens}"
        )
    return encoder


def _dtype(name: str, device: torch.device) -> torch.dtype | None:
    """None: the half-precision dtype that suits the weights."""
    if name == "auto":
        return torch.float32 if device.type == "cpu" else None
    if name not in _DTYPES:
        raise ModelLoadFailed(f"unknown dtype {name!r}; use auto, {', '.join(_DTYPES)}")
    return _DTYPES[name]
