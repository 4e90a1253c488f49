"""Answers of units: numbered chunks joined to a `Reply`, and a `Reply` read item by item.

Decides when chunks make an answer and how much memory they may take meanwhile, and which row of
an answer belongs to which item. It must not know HTTP or which request a unit is of.
"""

from __future__ import annotations

from typing import Any

import msgspec
from numpy.typing import NDArray

from shoal.errors import ErrorInfo, ProtocolError
from shoal.gateway.units import Span
from shoal.wire.arrays import from_wire
from shoal.wire.queue import Reply, ReplyPart

#: Bytes of unjoined chunks held in all; beyond it the oldest answer is dropped, and comes again
#: when its worker resends.
PARTS_MOST_BYTES = 256 * 1024 * 1024
#: Most chunks of one answer; 4 GB at the usual message limit.
PARTS_MOST = 4096


class _Pending:
    __slots__ = ("bytes", "chunks", "parts")

    def __init__(self, parts: int) -> None:
        self.parts = parts
        self.chunks: dict[int, bytes] = {}
        self.bytes = 0


class PartJoiner:
    """Joins the chunks of each (unit, worker); two workers' chunks are never mixed."""

    def __init__(self, most_bytes: int = PARTS_MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._pending: dict[tuple[str, str], _Pending] = {}
        self.bytes = 0

    def add(self, part: ReplyPart) -> bytes | None:
        """The encoded `Reply` if `part` was its last missing chunk. Raises `ProtocolError`."""
        if not (0 <= part.part < part.parts <= PARTS_MOST):
            raise ProtocolError(f"part {part.part} of {part.parts} of unit {part.unit}")
        key = (part.unit, part.worker)
        pending = self._pending.get(key)
        if pending is None or pending.parts != part.parts:
            self._drop(key)
            pending = self._pending[key] = _Pending(part.parts)
        if part.part not in pending.chunks:
            pending.chunks[part.part] = part.data
            pending.bytes += len(part.data)
            self.bytes += len(part.data)
        if len(pending.chunks) == part.parts:
            self._drop(key)
            return b"".join(pending.chunks[number] for number in range(part.parts))
        self._bound()
        return None

    def forget(self, units: list[str]) -> None:
        """Drop the chunks of units that nobody waits for any more."""
        if self._pending:
            wanted = set(units)
            for key in [key for key in self._pending if key[0] in wanted]:
                self._drop(key)

    def _drop(self, key: tuple[str, str]) -> None:
        pending = self._pending.pop(key, None)
        if pending is not None:
            self.bytes -= pending.bytes

    def _bound(self) -> None:
        while self.bytes > self._most_bytes and self._pending:
            self._drop(next(iter(self._pending)))


class Answer(msgspec.Struct, frozen=True):
    """A unit's reply and which items of the request it is of."""

    span: Span
    reply: Reply


class ItemAnswer(msgspec.Struct, frozen=True):
    """What became of one item: a row of each output, or an error.

    Attributes:
        vectors: output -> ``[dim]``, contiguous.
    """

    position: int
    tokens: int = 0
    truncated: bool = False
    vectors: dict[str, NDArray[Any]] = {}
    error: ErrorInfo | None = None


def items_of(answer: Answer) -> list[ItemAnswer]:
    """The items of a unit, in order. Raises `ProtocolError` if the reply does not add up."""
    span, reply = answer.span, answer.reply
    if reply.error is not None:
        return [ItemAnswer(n, error=reply.error) for n in range(span.start, span.end)]
    outputs = {head: from_wire(array) for head, array in reply.outputs.items()}
    _check(span, reply, outputs)
    items: list[ItemAnswer] = []
    truncated = set(reply.truncated)
    failed = 0
    for offset, tokens in enumerate(reply.tokens):
        position = span.start + offset
        if offset in reply.errors:
            items.append(ItemAnswer(position, error=reply.errors[offset]))
            failed += 1
            continue
        vectors = {head: array[offset - failed] for head, array in outputs.items()}
        items.append(ItemAnswer(position, tokens, offset in truncated, vectors))
    return items


def _check(span: Span, reply: Reply, outputs: dict[str, NDArray[Any]]) -> None:
    rows = span.items - len(reply.errors)
    short = [head for head, array in outputs.items() if len(array) != rows]
    if short or len(reply.tokens) != span.items or (rows and not outputs):
        raise ProtocolError(
            f"worker {reply.worker} answered unit {reply.unit} of {span.items} items with "
            f"{len(reply.tokens)} counts, {len(reply.errors)} errors and outputs of "
            f"{ {head: array.shape for head, array in outputs.items()} }"
        )
