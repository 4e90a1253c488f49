"""Cuts a request's items into units of bounded cost and bounded answer.

Decides only where to cut; must not know what an item is or when a unit is published.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from shoal.core.admission_events import Rate
from shoal.tasks.answering import AnswerSize
from shoal.tasks.reading import ALONE, Reading, Size
from shoal.wire.codec import Buffer

#: A unit's answer stays below this, so that it is one message under the broker's usual 1 MB.
REPLY_BYTES = 512 * 1024


class Span(msgspec.Struct, frozen=True):
    """Items ``[start, end)`` of a request, and what they count as one unit."""

    start: int
    end: int
    size: Size

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


def bounded_by_reply(limits: UnitLimits, answer: AnswerSize) -> UnitLimits:
    """`limits`, with fewer items or bytes where their answer would become too large."""
    items = max(1, min(limits.items, REPLY_BYTES // answer.item_bytes))
    most = limits.bytes if not answer.per_byte else int(REPLY_BYTES / answer.per_byte)
    return UnitLimits(items, min(limits.bytes, most), limits.seconds)


def cut(
    items: Sequence[Buffer], limits: UnitLimits, rate: Rate, reading: Reading = ALONE
) -> list[Span]:
    """Spans that cover `items` in order; an item above a limit is a unit of its own."""
    spans: list[Span] = []
    apart_s = rate.seconds(*reading.apart) if reading.apart.sequences else 0.0
    start, item_bytes, size, seconds = 0, 0, reading.apart.bytes, apart_s
    for position, item in enumerate(items):
        own = reading.item(len(item))
        own_s = rate.seconds(*own)
        full = (
            position - start == limits.items
            or size + own.bytes > limits.bytes
            or seconds + own_s > limits.seconds
        )
        if full and position > start:
            spans.append(Span(start, position, reading.unit(item_bytes, position - start)))
            start, item_bytes, size, seconds = position, 0, reading.apart.bytes, apart_s
        item_bytes += len(item)
        size += own.bytes
        seconds += own_s
    spans.append(Span(start, len(items), reading.unit(item_bytes, len(items) - start)))
    return spans
