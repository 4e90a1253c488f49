"""Self-attention over packed rows, by capability of the device.

Nothing here knows a model: heads and their width come from the shape of the input.

On CPU, items of exactly equal length go through one call together. One thread, 12 heads of 32,
float32, milliseconds for 64 mixed lengths (46 groups) / 64 of 16 tokens / 8 of 256 tokens:
exact groups 16.0 / 2.1 / 14.1; item by item 16.4 / 3.2 / 19.3; groups padded by up to 15 % under
a mask 20.0, by up to 50 % 23.5, all padded 96.7; products and softmax by hand 15.2 / 2.3 / 41.0.

A window is computed in chunks of queries, each with the keys that one of them may see, so that a
long item costs its length times the window and not its square. One thread, 12 heads of 64, window
64, milliseconds for 1,024 / 4,096 tokens: chunks of 128 tokens 15.6 / 119, of 64 23 / 97, of 256
37 / 155; the whole square under a mask 93 / 2,078, without one 48 / 1,084.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import msgspec
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from shoal.runtimes.torch.packed import Group, Packed

_HALF = (torch.float16, torch.bfloat16)

#: Queries and keys of items of one length, [items, heads, length, width] -> what is added to their
#: scaled products, [items or 1, heads, length, length] in their dtype.
Bias = Callable[[Tensor, Tensor], Tensor]

#: Queries that share their keys under a window on CPU, unless the window is wider.
_CHUNK_TOKENS = 128


class Attention(msgspec.Struct, frozen=True):
    """How a token attends to those of its own item.

    Attributes:
        causal: to itself and the tokens before it.
        window: to those at most this many tokens away; None: to any.
        scale: what products are multiplied with; None: 1 / sqrt(width of a head).
        bias: added to them then; not with a `window`, and with `causal` only where texts go on by a token.
    """

    causal: bool = False
    window: int | None = None
    scale: float | None = None
    bias: Bias | None = None


_TO_ALL = Attention()


def attend(qkv: Tensor, packed: Packed, heads: int, attention: Attention = _TO_ALL) -> Tensor:
    """Every item attends to itself alone: qkv [computed, 3 * hidden] -> [computed, hidden]."""
    rows, width = qkv.shape
    query, key, value = qkv.view(rows, 3, heads, width // 3 // heads).unbind(1)
    return attend_apart(query, key, value, packed, attention)


def attend_apart(
    query: Tensor, key: Tensor, value: Tensor, packed: Packed, attention: Attention = _TO_ALL
) -> Tensor:
    """Every item attends to itself alone: -> [computed, heads * width].

    query: [computed, heads, width]. key, value: [computed, key heads, width]; each of their heads
    serves as many neighbouring ones of the query. Views of one product will do.
    """
    whole = not any(group.seen for group in packed.groups)
    if whole and (kernel := packed_kernel(query, key, attention)) is not None:
        at, longest = packed.offsets, packed.longest
        return kernel(query, key, value, at, at, longest, longest).flatten(1)
    return _by_group(query, key, value, packed, attention)


def packed_kernel(query: Tensor, key: Tensor, attention: Attention) -> Callable[..., Tensor] | None:
    """Attention of packed rows of several items in one call, where there is such a kernel.

    It takes query, key and value, [rows, heads, width]; where the rows of each item begin and the last
    ends, of queries and of keys, int32 [items + 1]; and the most rows of one item, of both. The last
    query of an item stands at its last key.
    """
    # The kernel wants heads of a multiple of 8, up to 256.
    if not (query.is_cuda and query.dtype in _HALF and query.shape[2] % 8 == 0):
        return None
    kernel = _varlen_kernel(query.device)
    if kernel is None or query.shape[2] > 256:
        return None
    options = _varlen_options(query, key, attention)
    return partial(kernel, **options) if options.keys() <= _taken(kernel) else None


@cache
def _varlen_kernel(device: torch.device) -> Callable[..., Any] | None:
    """Flash attention over packed rows, where torch (2.10 and later) and the GPU have it."""
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return None
    major, _ = torch.cuda.get_device_capability(device)
    return varlen_attn if major >= 8 else None


@cache
def _taken(kernel: Callable[..., Any]) -> frozenset[str]:
    """What this torch's kernel can be told: windows and shared heads came after 2.10."""
    return frozenset(inspect.signature(kernel).parameters)


def _varlen_options(query: Tensor, key: Tensor, attention: Attention) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if attention.causal or attention.window is not None:
        before = -1 if attention.window is None else attention.window
        options["window_size"] = (before, 0 if attention.causal else before)
    if attention.scale is not None:
        options["scale"] = attention.scale
    if query.shape[1] != key.shape[1]:
        options["enable_gqa"] = True
    if attention.bias is not None:
        options["bias"] = attention.bias  # no torch's kernel takes one
    return options


def _by_group(
    query: Tensor, key: Tensor, value: Tensor, packed: Packed, attention: Attention
) -> Tensor:
    parts = [
        _dense(_of_group(query, g), _seen_of(key, g), _seen_of(value, g), attention)
        for g in packed.groups
    ]
    filling = query.shape[0] - packed.groups[-1].stop
    if filling:
        parts.append(parts[0].new_zeros(filling, parts[0].shape[1]))
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _of_group(rows: Tensor, group: Group) -> Tensor:
    """[computed, heads, width] -> a view of the group's, [items, heads, length, width]."""
    split = rows[group.start : group.stop].view(group.items, group.length, *rows.shape[1:])
    return split.transpose(1, 2)


def _seen_of(rows: Tensor, group: Group) -> Tensor:
    """The same for keys and values: of those tokens that are attended to."""
    whole = _of_group(rows, group)
    return whole[:, :, : group.seen] if group.seen else whole


def _dense(query: Tensor, key: Tensor, value: Tensor, attention: Attention) -> Tensor:
    """[items, heads, length, width] of one group -> [items * length, heads * width]."""
    if attention.window is None or attention.window >= query.shape[2] - 1:
        added = attention.bias(query, key) if attention.bias else None
        options = _shared_options(query, key, attention)
        attended = scaled_dot_product_attention(
            query, key, value, added, is_causal=attention.causal, **options
        )
    else:
        attended = _in_chunks(query, key, value, attention, attention.window)
    return attended.transpose(1, 2).flatten(2).flatten(0, 1)


def _in_chunks(
    query: Tensor, key: Tensor, value: Tensor, attention: Attention, window: int
) -> Tensor:
    """Keys may be fewer than queries (`Group.seen`). One that sees none of them gets zeros: that is
    what torch's softmax makes of a row without any."""
    length, keys = query.shape[2], key.shape[2]
    chunk = max(window, _CHUNK_TOKENS)
    parts = []
    for start in range(0, length, chunk):
        stop = min(length, start + chunk)
        last = min(keys, stop if attention.causal else stop + window)
        first = max(0, min(start - window, last - 1))
        mine, theirs = slice(start, stop), slice(first, last)
        part = scaled_dot_product_attention(
            query[:, :, mine],
            key[:, :, theirs],
            value[:, :, theirs],
            _seen(mine, theirs, attention.causal, window, query.device),
            **_shared_options(query, key, attention),
        )
        parts.append(part)
    return torch.cat(parts, 2)


def _seen(mine: slice, theirs: slice, causal: bool, window: int, device: torch.device) -> Tensor:
    """Which key a query sees: bool [queries, keys]."""
    queries = torch.arange(mine.start, mine.stop, device=device)
    keys = torch.arange(theirs.start, theirs.stop, device=device)
    ahead = keys - queries[:, None]
    return (ahead >= -window) & (ahead <= (0 if causal else window))


def _shared_options(query: Tensor, key: Tensor, attention: Attention) -> dict[str, Any]:
    return {"scale": attention.scale, "enable_gqa": query.shape[1] != key.shape[1]}
