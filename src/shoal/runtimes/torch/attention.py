"""Self-attention over packed rows, by capability of the device.

Nothing here knows a model: heads and their width come from the shape of the input.

On CPU, items of exactly equal length go through one call together. One thread, 12 heads of 32,
float32, milliseconds for 64 mixed lengths (46 groups) / 64 of 16 tokens / 8 of 256 tokens:
exact groups 16.0 / 2.1 / 14.1; item by item 16.4 / 3.2 / 19.3; groups padded by up to 15 % under
a mask 20.0, by up to 50 % 23.5, all padded 96.7; products and softmax by hand 15.2 / 2.3 / 41.0.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from shoal.runtimes.torch.packed import Group, Packed

_HALF = (torch.float16, torch.bfloat16)


def attend(qkv: Tensor, packed: Packed, heads: int) -> Tensor:
    """Every item attends to itself alone: qkv [computed, 3 * hidden] -> [computed, hidden]."""
    rows, width = qkv.shape
    split = qkv.view(rows, 3, heads, width // 3 // heads)
    kernel = _varlen_kernel(qkv.device) if qkv.is_cuda and qkv.dtype in _HALF else None
    # The kernel wants heads of a multiple of 8, up to 256.
    if kernel is None or split.shape[3] % 8 or split.shape[3] > 256:
        return _by_group(split, packed)
    return _varlen(kernel, split, packed)


@cache
def _varlen_kernel(device: torch.device) -> Callable[..., Any] | None:
    """Flash attention over packed rows, where torch (2.10 and later) and the GPU have it."""
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return None
    major, _ = torch.cuda.get_device_capability(device)
    return varlen_attn if major >= 8 else None


def _by_group(qkv: Tensor, packed: Packed) -> Tensor:
    parts = [_dense(qkv[g.start : g.stop], g) for g in packed.groups]
    filling = qkv.shape[0] - packed.groups[-1].stop
    if filling:
        parts.append(parts[0].new_zeros(filling, parts[0].shape[1]))
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _dense(qkv: Tensor, group: Group) -> Tensor:
    _, _, heads, width = qkv.shape
    query, key, value = qkv.view(group.items, group.length, 3, heads, width).permute(2, 0, 3, 1, 4)
    attended = scaled_dot_product_attention(query, key, value)
    return attended.transpose(1, 2).reshape(group.items * group.length, heads * width)


def _varlen(kernel: Callable[..., Any], qkv: Tensor, packed: Packed) -> Tensor:
    rows, _, heads, width = qkv.shape
    query, key, value = qkv.unbind(1)
    longest = packed.longest
    attended: Tensor = kernel(query, key, value, packed.offsets, packed.offsets, longest, longest)
    return attended.reshape(rows, heads * width)
