"""Cuts a request's items into units of bounded cost and bounded answer.

Decides only where to cut; must not know what an item is or when a unit is published.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from shoal.core.admission_events import Rate
from shoal.values import EncodeParams
from shoal.wire.codec import Buffer

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

    @property
    def positions(self) -> range:
        """Positions of its items in the request."""
        return range(self.start, self.end)


class UnitLimits(msgspec.Struct, frozen=True):
    """Most items, bytes and predicted seconds of one unit.

    `seconds` keeps a unit to about one batch, so that a small request that comes behind a large
    one waits for a batch or two, and several workers share the large one.
    """

    items: int
    bytes: int
    seconds: float = float("inf")


def bounded_by_reply(limits: UnitLimits, params: EncodeParams, dim: int) -> UnitLimits:
    """`limits`, with fewer items where their vectors would make the answer too large."""
    width = params.dimensions or dim
    item_bytes = width * _DTYPE_BYTES[params.dtype] + ITEM_OVERHEAD_BYTES
    items = max(1, min(limits.items, REPLY_BYTES // item_bytes))
    return UnitLimits(items, limits.bytes, limits.seconds)


def cut(items: Sequence[Buffer], limits: UnitLimits, rate: Rate) -> list[Span]:
    """Spans that cover `items` in order; an item above a limit is a unit of its own."""
    spans: list[Span] = []
    start, size, seconds = 0, 0, 0.0
    for position, item in enumerate(items):
        item_s = rate.seconds(len(item), 1)
        full = (
            position - start == limits.items
            or size + len(item) > limits.bytes
            or seconds + item_s > limits.seconds
        )
        if full and position > start:
            spans.append(Span(start, position, size))
            start, size, seconds = position, 0, 0.0
        size += len(item)
        seconds += item_s
    spans.append(Span(start, len(items), size))
    return spans
