"""Cuts a request's items into units of bounded cost and bounded answer.

Decides only where to cut; must not know what an item is or when a unit is published.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from shoal.catalog.card import EncodeTask
from shoal.core.admission_events import Rate
from shoal.values import BYTES_PER_TOKEN, EncodeParams, VectorDType
from shoal.wire.codec import Buffer

#: A unit's answer stays below this, so that it is one message under the broker's usual 1 MB.
REPLY_BYTES = 512 * 1024
#: Beside its vector, an item's answer has a token count, and a share of the frame.
ITEM_OVERHEAD_BYTES = 16
_DTYPE_BYTES: dict[VectorDType, float] = {
    "float32": 4,
    "float16": 2,
    "int8": 1,
    "uint8": 1,
    "binary": 1 / 8,
}
#: SPLADE gives a passage of 256 tokens some 220 terms; each is an index and a weight.
_SPARSE_BYTES = 256 * 8


class AnswerSize(msgspec.Struct, frozen=True):
    """Expected bytes of an item's answer: `item_bytes`, and `per_byte` of what the item has."""

    item_bytes: int
    per_byte: float = 0.0


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


def encoded_size(params: EncodeParams, task: EncodeTask) -> AnswerSize:
    """What an item's vectors take."""
    number = _DTYPE_BYTES[params.dtype]
    item_bytes, per_byte = float(ITEM_OVERHEAD_BYTES), 0.0
    if task.dense is not None and "dense" in params.outputs:
        item_bytes += (params.dimensions or task.dense.dim) * number
    if "sparse" in params.outputs:
        item_bytes += _SPARSE_BYTES
    if task.multivector is not None and "multivector" in params.outputs:
        per_byte = task.multivector.dim * number / BYTES_PER_TOKEN
    return AnswerSize(math.ceil(item_bytes), per_byte)


def bounded_by_reply(limits: UnitLimits, answer: AnswerSize) -> UnitLimits:
    """`limits`, with fewer items or bytes where their answer would become too large."""
    items = max(1, min(limits.items, REPLY_BYTES // answer.item_bytes))
    most = limits.bytes if not answer.per_byte else int(REPLY_BYTES / answer.per_byte)
    return UnitLimits(items, min(limits.bytes, most), limits.seconds)


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
