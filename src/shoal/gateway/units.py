"""Cuts a request's items into units of bounded cost and bounded answer.

Decides only where to cut; must not know what an item is or when a unit is published.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from shoal.catalog.card import Card
from shoal.catalog.tasks import EncodeTask
from shoal.core.admission_events import Rate
from shoal.tasks.fde import WIDTH as FDE_WIDTH
from shoal.tasks.outputs import FDE
from shoal.tasks.reading import ALONE, Reading, Size
from shoal.values import (
    BYTES_PER_TOKEN,
    EncodeParams,
    ExtractParams,
    GenerateParams,
    Params,
    ScoreParams,
    TokenizeParams,
    VectorDType,
)
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

#: Of labels whose number nobody says, a dozen; each is its name, a score and the names of both.
_LABELS, _LABEL_BYTES = 12, 40
#: Of a text full of names, 60 bytes for each name of 15; a transcript's segments are no more.
_EXTRACT_PER_BYTE = 4.0
#: Of a token: the names of what is told of it, an id, two places, and its text.
_TOKEN_BYTES = 48
#: Of a generated token, or one that could have stood there: its text, its bytes, its likelihood.
_TOLD_BYTES = 48
#: Heads that tell all labels of each item.
_LABELLING = ("sequence-labels", "image-labels", "nli", "image-text")


class AnswerSize(msgspec.Struct, frozen=True):
    """Expected bytes of an item's answer: `item_bytes`, and `per_byte` of what the item has."""

    item_bytes: int
    per_byte: float = 0.0


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


def answer_size(params: Params, card: Card) -> AnswerSize:
    """What an item's answer takes."""
    match params:
        case EncodeParams():
            assert card.tasks.encode is not None, "its parameters were checked"
            return _encoded_size(params, card.tasks.encode)
        case ScoreParams():
            return AnswerSize(ITEM_OVERHEAD_BYTES)
        case ExtractParams(labels):
            task = card.tasks.extract
            if task is None or task.head not in _LABELLING:
                return AnswerSize(ITEM_OVERHEAD_BYTES, _EXTRACT_PER_BYTE)
            names = labels or task.labels
            told = sum([len(name.encode()) for name in names]) + _LABEL_BYTES * len(names)
            return AnswerSize(ITEM_OVERHEAD_BYTES + (told or _LABELS * _LABEL_BYTES))
        case GenerateParams(max_tokens=most):
            told = 0 if params.logprobs is None else _TOLD_BYTES * (1 + params.logprobs)
            tokens = min(most or card.max_tokens, card.max_tokens)
            return AnswerSize(ITEM_OVERHEAD_BYTES + tokens * (int(BYTES_PER_TOKEN) + told))
        case TokenizeParams():
            return AnswerSize(ITEM_OVERHEAD_BYTES, _TOKEN_BYTES / BYTES_PER_TOKEN)


def _encoded_size(params: EncodeParams, task: EncodeTask) -> AnswerSize:
    number = _DTYPE_BYTES[params.dtype]
    item_bytes, per_byte = float(ITEM_OVERHEAD_BYTES), 0.0
    if task.dense is not None and "dense" in params.outputs:
        item_bytes += (params.dimensions or task.dense.dim) * number
    if "sparse" in params.outputs:
        item_bytes += _SPARSE_BYTES
    if FDE in params.outputs:
        item_bytes += FDE_WIDTH * number
    if task.multivector is not None and "multivector" in params.outputs:
        token_bytes = task.multivector.dim * number
        item_bytes += token_bytes * (task.multivector.filled or 2)  # the special ones
        per_byte = token_bytes / BYTES_PER_TOKEN
    return AnswerSize(math.ceil(item_bytes), per_byte)


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
