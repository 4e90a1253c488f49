"""Attention over packed rows against the definition, item by item, on what devices there are."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor

from shoal.runtimes.torch.attention import Attention, attend, attend_apart
from shoal.runtimes.torch.packed import Packed, pack

HEADS, WIDTH = 4, 8
ON_CPU = [("cpu", torch.float32, 1e-5), ("cpu", torch.bfloat16, 3e-2)]
ON_GPU = [
    ("cuda", torch.float32, 1e-4),
    ("cuda", torch.float16, 1e-2),
    ("cuda", torch.bfloat16, 3e-2),
]
CASES = [*ON_CPU, *(ON_GPU if torch.cuda.is_available() else [])]

ATTENTIONS = [
    Attention(),
    Attention(causal=True),
    Attention(scale=0.7),
    Attention(window=0),
    Attention(window=5),
    Attention(window=5, causal=True),
    Attention(window=16, causal=True, scale=2.0),
    Attention(window=200),
    Attention(window=400, causal=True),
]


@pytest.mark.parametrize(("device", "dtype", "tolerance"), CASES, ids=str)
def test_every_item_attends_to_itself_alone(
    device: str, dtype: torch.dtype, tolerance: float
) -> None:
    packed = _packed([3, 1, 40, 3, 17, 17, 5], device)
    torch.manual_seed(5)
    qkv = torch.randn(packed.computed, 3 * HEADS * WIDTH).to(device, dtype)
    ours = attend(qkv, packed, HEADS)
    assert ours.shape == (packed.computed, HEADS * WIDTH)
    query, key, value = qkv.view(-1, 3, HEADS, WIDTH).unbind(1)
    _check(ours, (query, key, value), packed, Attention(), tolerance)


@pytest.mark.parametrize("attention", ATTENTIONS, ids=str)
@pytest.mark.parametrize("key_heads", [4, 2, 1])
@pytest.mark.parametrize(("device", "dtype", "tolerance"), CASES, ids=str)
def test_what_a_token_sees(
    device: str, dtype: torch.dtype, tolerance: float, key_heads: int, attention: Attention
) -> None:
    # Longer than several chunks, exactly one and two of them, one token more, and shorter ones.
    packed = _packed([300, 128, 1, 129, 256, 6, 7, 7, 128], device)
    torch.manual_seed(5)
    qkv = torch.randn(packed.computed, HEADS + 2 * key_heads, WIDTH).to(device, dtype)
    query, key, value = qkv.tensor_split((HEADS, HEADS + key_heads), 1)
    ours = attend_apart(query, key, value, packed, attention)
    assert ours.shape == (packed.computed, HEADS * WIDTH)
    _check(ours, (query, key, value), packed, attention, tolerance)


@pytest.mark.parametrize(("device", "dtype", "tolerance"), CASES, ids=str)
def test_what_is_added_to_the_products(device: str, dtype: torch.dtype, tolerance: float) -> None:
    def bias(query: Tensor, key: Tensor) -> Tensor:
        return (query @ key.transpose(2, 3)).tanh()

    packed = _packed([300, 1, 129, 6, 7, 7], device)
    torch.manual_seed(5)
    qkv = torch.randn(packed.computed, 3 * HEADS * WIDTH).to(device, dtype)
    attention = Attention(scale=0.5, bias=bias)
    ours = attend(qkv, packed, HEADS, attention)
    query, key, value = qkv.view(-1, 3, HEADS, WIDTH).unbind(1)
    _check(ours, (query, key, value), packed, attention, tolerance)


def _packed(lengths: list[int], device: str) -> Packed:
    (packed,) = pack(
        np.zeros(sum(lengths), np.int32),
        np.array(lengths, np.int64),
        np.arange(len(lengths)),
        pass_tokens=1000,
        device=torch.device(device),
    )
    return packed


def _check(
    ours: Tensor,
    rows: tuple[Tensor, Tensor, Tensor],
    packed: Packed,
    attention: Attention,
    tolerance: float,
) -> None:
    for start, stop in pairwise(packed.offsets.tolist()):
        query, key, value = (part[start:stop].float() for part in rows)
        expected = _by_definition(query, key, value, attention)
        torch.testing.assert_close(
            ours[start:stop].float(), expected, atol=tolerance, rtol=tolerance
        )


def _by_definition(query: Tensor, key: Tensor, value: Tensor, attention: Attention) -> Tensor:
    shared = HEADS // key.shape[1]
    key, value = key.repeat_interleave(shared, 1), value.repeat_interleave(shared, 1)
    scale = 1 / math.sqrt(WIDTH) if attention.scale is None else attention.scale
    products = torch.einsum("qhw,khw->hqk", query, key) * scale
    if attention.bias is not None:
        products = (
            products + attention.bias(query.transpose(0, 1)[None], key.transpose(0, 1)[None])[0]
        )
    at = torch.arange(len(query), device=query.device)
    away = at[:, None] - at[None, :]
    if attention.causal:
        products = products.masked_fill(away < 0, -torch.inf)
    if attention.window is not None:
        products = products.masked_fill(away.abs() > attention.window, -torch.inf)
    attended: Tensor = torch.einsum("hqk,khw->qhw", torch.softmax(products, -1), value).flatten(1)
    return attended
