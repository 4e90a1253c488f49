"""Self-attention over packed rows, by capability of the device.

Nothing here knows a model: heads and their width come from the shape of the input.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from shoal.runtimes.torch.packed import Group, Packed


def attend(qkv: Tensor, packed: Packed, heads: int) -> Tensor:
    """Every item attends to itself alone: qkv [computed, 3 * hidden] -> [computed, hidden]."""
    rows, width = qkv.shape
    split = qkv.view(rows, 3, heads, width // 3 // heads)
    if qkv.is_cuda and qkv.dtype != torch.float32:
        return _varlen(split, packed)
    return _by_group(split, packed)


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


def _varlen(qkv: Tensor, packed: Packed) -> Tensor:
    from torch.nn.attention.varlen import varlen_attn

    rows, _, heads, width = qkv.shape
    query, key, value = qkv.unbind(1)
    out = varlen_attn(
        query, key, value, packed.offsets, packed.offsets, packed.longest, packed.longest
    )
    assert isinstance(out, Tensor)  # a pair only where the softmax statistics are asked for
    return out.reshape(rows, heads * width)
