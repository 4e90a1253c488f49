"""Answers of units: numbered chunks joined to a `Reply`, and a `Reply` read item by item.

Decides when chunks make an answer and how much memory they may take meanwhile, and which row of
an answer belongs to which item. It must not know HTTP or which request a unit is of.
"""

from __future__ import annotations

import msgspec

from shoal.errors import ErrorInfo, ProtocolError
from shoal.gateway.units import Span
from shoal.wire.codec import Buffer
from shoal.wire.memory import unwritten
from shoal.wire.outputs import Row, read_outputs
from shoal.wire.queue import Piece, Reply, ReplyPart, decode_queue

#: Bytes of unjoined chunks held in all; beyond it the oldest answer is dropped, and comes again
#: when its worker resends.
PARTS_MOST_BYTES = 256 * 1024 * 1024
#: Most chunks of one answer; 4 GB at the usual message limit.
PARTS_MOST = 4096


class _Pending:
    """Chunks written in place as they come: joining 20 MB in one go would block for 10 ms.

    All chunks but the last are of one size; until one of those came, the last one waits.
    """

    __slots__ = ("bytes", "last", "parts", "seen", "size", "whole")

    def __init__(self, parts: int) -> None:
        self.parts = parts
        self.seen: set[int] = set()
        self.bytes = 0
        self.size = 0
        self.whole = memoryview(b"")
        self.last = b""

    def add(self, part: ReplyPart) -> None:
        """Raises `ProtocolError` for a chunk of another size."""
        final = part.part == self.parts - 1
        if final:
            self.last = part.data
        elif not self.size:
            self.size = len(part.data)
            self.whole = unwritten(self.size * self.parts)
        elif len(part.data) != self.size:
            raise ProtocolError(f"part {part.part} of unit {part.unit} has {len(part.data)} bytes")
        if not final:
            self.whole[part.part * self.size : (part.part + 1) * self.size] = part.data
        self.seen.add(part.part)
        self.bytes += len(part.data)

    def joined(self) -> Buffer:
        """The whole, once all chunks are there. Raises `ProtocolError` if the last is too large."""
        start = self.size * (self.parts - 1)
        if self.parts == 1:
            return self.last
        if len(self.last) > self.size:
            raise ProtocolError(f"the last of {self.parts} parts is larger than the others")
        self.whole[start : start + len(self.last)] = self.last
        return self.whole[: start + len(self.last)]


class PartJoiner:
    """Joins the chunks of each (unit, worker); two workers' chunks are never mixed."""

    def __init__(self, most_bytes: int = PARTS_MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._pending: dict[tuple[str, str], _Pending] = {}
        self.bytes = 0

    def read(self, data: Buffer) -> Reply | Piece | None:
        """What a message to a gateway says; None: chunks of its answer are missing. Raises `ProtocolError`."""
        message = decode_queue(data)
        if isinstance(message, ReplyPart):
            whole = self.add(message)
            if whole is None:
                return None
            message = decode_queue(whole)
        if not isinstance(message, Reply | Piece):
            raise ProtocolError(f"a {type(message).__name__} is no reply")
        return message

    def add(self, part: ReplyPart) -> Buffer | None:
        """The encoded `Reply` if `part` was its last missing chunk. Raises `ProtocolError`."""
        if not (0 <= part.part < part.parts <= PARTS_MOST):
            raise ProtocolError(f"part {part.part} of {part.parts} of unit {part.unit}")
        key = (part.unit, part.worker)
        pending = self._pending.get(key)
        if pending is None or pending.parts != part.parts:
            self._drop(key)
            pending = self._pending[key] = _Pending(part.parts)
        if part.part not in pending.seen:
            pending.add(part)
            self.bytes += len(part.data)
        if len(pending.seen) == part.parts:
            self._drop(key)
            return pending.joined()
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
        vectors: output -> ``[dim]``, contiguous; or of several tokens, or sparse.
        told: in place of vectors, what was extracted, in MessagePack.
    """

    position: int
    tokens: int = 0
    truncated: bool = False
    vectors: dict[str, Row] = {}
    told: bytes = b""
    error: ErrorInfo | None = None


def items_of(answer: Answer) -> list[ItemAnswer]:
    """The items of a unit, in order. Raises `ProtocolError` if the reply does not add up."""
    span, reply = answer.span, answer.reply
    if reply.error is not None:
        return [ItemAnswer(n, error=reply.error) for n in range(span.start, span.end)]
    _check(span, reply)
    good = span.items - len(reply.errors)
    outputs = read_outputs(reply.outputs, reply.lengths, reply.indices, good)
    rows = {head: output.rows() for head, output in outputs.items()}
    items: list[ItemAnswer] = []
    truncated = set(reply.truncated)
    failed = 0
    for offset, tokens in enumerate(reply.tokens):
        position = span.start + offset
        if offset in reply.errors:
            items.append(ItemAnswer(position, error=reply.errors[offset]))
            failed += 1
            continue
        row = offset - failed
        vectors = {head: found[row] for head, found in rows.items()}
        told = reply.objects[row] if reply.objects else b""
        items.append(ItemAnswer(position, tokens, offset in truncated, vectors, told))
    return items


def _check(span: Span, reply: Reply) -> None:
    rows = span.items - len(reply.errors)
    answered = len(reply.objects) == rows if reply.objects else reply.outputs or not rows
    if len(reply.tokens) != span.items or not answered:
        raise ProtocolError(
            f"worker {reply.worker} answered unit {reply.unit} of {span.items} items with "
            f"{len(reply.tokens)} counts, {len(reply.errors)} errors, outputs of "
            f"{ {head: array.shape for head, array in reply.outputs.items()} } and "
            f"{len(reply.objects)} objects"
        )
