"""Keys and values of all layers, a row a place; and how the rows of a pass attend to them.

A pass brings some new rows of each of its sequences: one of a text that goes on, many of a prompt. They
attend to all rows of their sequence so far, the new ones included. On CUDA one kernel serves them
all; elsewhere, one call a sequence. One thread, 9 heads of 64 that share 3 of keys, float32: one row to
512 places 45 µs, 64 rows to 1,024 places 3.3 ms.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from shoal.runtimes.torch.attention import Attention, packed_kernel
from shoal.runtimes.torch.families.base import Kept


class Span(NamedTuple):
    """New rows of one sequence in a pass.

    Attributes:
        rows: where they lie in the pass.
        place: of the sequence's first token.
        before: its tokens that were computed before these.
    """

    rows: slice
    place: int
    before: int

    @property
    def new(self) -> int:
        return int(self.rows.stop - self.rows.start)

    @property
    def tokens(self) -> int:
        """Those of the sequence so far."""
        return self.before + self.new


class Pass:
    """Rows of one pass over several sequences, and what all layers need to know of them. Rows past the
    last span are filling."""

    def __init__(self, spans: list[Span], device: torch.device) -> None:
        self.spans, self._device = spans, device
        self.used = spans[-1].rows.stop
        self.places = flat([(s.place + s.before, s.new) for s in spans], device)
        self._masks: dict[tuple[int, int | None], Tensor | None] = {}
        self._seen: dict[int | None, Seen] = {}

    def mask(self, number: int, window: int | None) -> Tensor | None:
        """Which places the rows of a span see, of those from its `first` on; None: all."""
        key = number, window
        if key not in self._masks:
            span = self.spans[number]
            self._masks[key] = _mask(span, first(span, window), window, self._device)
        return self._masks[key]

    def seen(self, window: int | None) -> Seen:
        """The places that the spans see, end to end."""
        if window not in self._seen:
            firsts = [first(span, window) for span in self.spans]
            counts = [span.tokens - at for span, at in zip(self.spans, firsts, strict=True)]
            device = self._device
            starts = [
                (s.place + at, n) for s, at, n in zip(self.spans, firsts, counts, strict=True)
            ]
            self._seen[window] = Seen(
                flat(starts, device),
                _ends([span.new for span in self.spans], device),
                _ends(counts, device),
                max(span.new for span in self.spans),
                max(counts),
            )
        return self._seen[window]


class Seen(NamedTuple):
    """For the kernel: places of keys, and where the rows and keys of each span end."""

    places: Tensor
    rows: Tensor
    keys: Tensor
    most_rows: int
    most_keys: int


class Keys:
    """Of one model, for so many places."""

    def __init__(self, kept: list[Kept], places: int, dtype: torch.dtype, device: torch.device):
        self._kept = kept
        self._layers = [
            torch.empty((2, places, layer.key_heads, layer.width), dtype=dtype, device=device)
            for layer in kept
        ]

    def copy(self, source: int, to: int, tokens: int) -> None:
        """The keys of a prefix; the two do not overlap."""
        for layer in self._layers:
            layer[:, to : to + tokens] = layer[:, source : source + tokens]

    def keep(self, number: int, key: Tensor, value: Tensor, places: Tensor) -> None:
        """Of a layer, at these places: [rows, key heads, width] twice; rows past them are filling."""
        keys, values = self._layers[number]
        keys.index_copy_(0, places, key[: len(places)])
        values.index_copy_(0, places, value[: len(places)])

    def attend(self, number: int, query: Tensor, key: Tensor, value: Tensor, over: Pass) -> Tensor:
        """Rows of a layer: [computed, heads, width], [computed, key heads, width] twice ->
        [computed, heads * width]."""
        self.keep(number, key, value, over.places)
        return self.look(number, query, over, self._kept[number].attention)

    def look(self, number: int, query: Tensor, over: Pass, attention: Attention) -> Tensor:
        """What rows of a layer attend to, all of whose keys are there: [computed, heads, width] ->
        [computed, heads * width]."""
        keys, values = self._layers[number]
        if (kernel := packed_kernel(query, keys, attention)) is not None:
            seen = over.seen(attention.window)
            attended = kernel(
                query[: over.used],
                keys.index_select(0, seen.places),
                values.index_select(0, seen.places),
                seen.rows,
                seen.keys,
                seen.most_rows,
                seen.most_keys,
            ).flatten(1)
            return _filled(attended, len(query))
        result = query.new_zeros(len(query), query.shape[1] * query.shape[2])
        for at, span in enumerate(over.spans):
            start = first(span, attention.window)
            places = slice(span.place + start, span.place + span.tokens)
            mask = over.mask(at, attention.window)
            result[span.rows] = _attended(
                query[span.rows], keys[places], values[places], mask, attention
            )
        return result


def bytes_per_place(kept: list[Kept], dtype: torch.dtype) -> int:
    """Of keys and values in all layers."""
    return sum(2 * layer.key_heads * layer.width * dtype.itemsize for layer in kept)


def first(span: Span, window: int | None) -> int:
    """The first token of a sequence that one of its new rows sees."""
    return 0 if window is None else max(0, span.before - window)


def _attended(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, attention: Attention
) -> Tensor:
    """One sequence: [new, heads, width], [seen, key heads, width] twice -> [new, heads * width]."""
    new, heads, width = query.shape
    keys, values = key.transpose(0, 1)[None], value.transpose(0, 1)[None]
    if new == 1:
        # Heads that share keys become rows that share them, which needs no copy of the keys.
        rows = query.view(1, key.shape[1], -1, width)
        added = attention.bias(rows, keys) if attention.bias else None
        one = scaled_dot_product_attention(rows, keys, values, added, scale=attention.scale)
        return one.reshape(1, heads * width)
    attended = scaled_dot_product_attention(
        query.transpose(0, 1)[None],
        keys,
        values,
        mask,
        is_causal=mask is None,
        scale=attention.scale,
        enable_gqa=heads != key.shape[1],
    )
    return attended[0].transpose(0, 1).flatten(1)


def _mask(span: Span, start: int, window: int | None, device: torch.device) -> Tensor | None:
    """bool [new, seen]; None: one row that sees all, or each what lies before it and nothing else."""
    if span.new == 1 or (span.before == 0 and (window is None or window >= span.new - 1)):
        return None
    rows = torch.arange(span.before, span.tokens, device=device)[:, None]
    keys = torch.arange(start, span.tokens, device=device)
    seen = keys <= rows
    return seen if window is None else seen & (keys >= rows - window)


def flat(ranges: list[tuple[int, int]], device: torch.device) -> Tensor:
    """Ranges by start and length, end to end: int64."""
    return torch.cat([torch.arange(at, at + count) for at, count in ranges]).to(
        device, non_blocking=True
    )


def _ends(counts: list[int], device: torch.device) -> Tensor:
    ends = torch.tensor([0, *counts]).cumsum(0).int()
    return ends.to(device, non_blocking=True)


def _filled(rows: Tensor, count: int) -> Tensor:
    return (
        rows
        if len(rows) == count
        else torch.cat((rows, rows.new_zeros(count - len(rows), rows.shape[1])))
    )
