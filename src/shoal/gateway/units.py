"""Cuts a request's items into units of bounded cost and bounded answer.

Decides only where to cut; must not know what an item is or when a unit is published.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from shoal.values import EncodeParams

#: A unit's answer stays below this, so that it is one message under the broker's usual 1 MB.
REPLY_BYTES = 512 * 1024
#: Beside its vector, an item's answer has a token count, and a share of the frame.
ITEM_OVERHEAD_BYTES = 16
_DTYPE_BYTES = {"float32": 4, "float16": 2}


class Span(msgspec.Struct, frozen=True):
    """Items ``[start, end)`` of a request, and their bytes."""

    start: int
    end: int
    bytes: int

    @property
    def items(self) -> int:
        return self.end - self.start


class UnitLimits(msgspec.Struct, frozen=True):
    items: int
    bytes: int


def bounded_by_reply(limits: UnitLimits, params: EncodeParams, dim: int) -> UnitLimits:
    """`limits`, with fewer items where their vectors would make the answer too large."""
    width = params.dimensions or dim
    item_bytes = width * _DTYPE_BYTES[params.dtype] + ITEM_OVERHEAD_BYTES
    return UnitLimits(max(1, min(limits.items, REPLY_BYTES // item_bytes)), limits.bytes)


def cut(items: Sequence[bytes], limits: UnitLimits) -> list[Span]:
    """Spans that cover `items` in order; an item above `limits.bytes` is a unit of its own."""
    spans: list[Span] = []
    start, size = 0, 0
    for position, item in enumerate(items):
        full = position - start == limits.items or size + len(item) > limits.bytes
        if full and position > start:
            spans.append(Span(start, position, size))
            start, size = position, 0
        size += len(item)
    spans.append(Span(start, len(items), size))
    return spans
