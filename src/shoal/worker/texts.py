"""Texts that are being generated: sequences between core and runtime, and their pieces on their way.

A sequence's tokens become characters here, whatever runtime they come from. Who asked for a stream gets
each piece that is sure; the answer has the whole, so that no piece is needed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import assert_never

import msgspec
import numpy as np
from msgspec.structs import replace

from shoal.core import events as ev
from shoal.errors import ComputeFailed, ErrorInfo, InvalidRequest
from shoal.tasks.generate.answer import Called, Delta, Said, Thought
from shoal.values import GRAMMAR_PARAMS, GenerateParams
from shoal.wire.arrays import from_wire, to_wire
from shoal.wire.objects import TokenLogprob
from shoal.wire.queue import CallPart, Piece
from shoal.wire.socket import Chunk, Generate, Generated
from shoal.worker.prepared import Prepared, Told, Writing
from shoal.worker.replies import Replies
from shoal.worker.stash import Stash
from shoal.worker.watch import Watch

#: How often the core hears that a runtime goes on: it looks each second for those that do not.
PROGRESS_S = 1.0
_encoder = msgspec.msgpack.Encoder()


class Rarely:
    """Whether it is time again, for each runtime."""

    def __init__(self) -> None:
        self._next: dict[tuple[str, str], float] = {}

    def due(self, lane: str, kind: str, now: float) -> bool:
        """At most once in `PROGRESS_S`."""
        if now < self._next.get((lane, kind), 0.0):
            return False
        self._next[lane, kind] = now + PROGRESS_S
        return True


class _Text:
    """One under way. `sent`: an empty piece of what comes next."""

    __slots__ = ("began_at", "ended", "first_s", "item", "run", "sent", "stash", "writing")

    def __init__(
        self, run: ev.Run, stash: Stash, item: int, writing: Writing, worker: str, now: float
    ) -> None:
        self.run = run
        self.stash = stash
        self.item = item
        self.writing = writing
        self.began_at = now
        self.first_s: float | None = None
        self.ended = False
        self.sent = Piece(stash.unit.id, worker, item, 0, "")

    def pieces(self, deltas: list[Delta], told: list[TokenLogprob]) -> Iterator[Piece]:
        """What is sent of some tokens: each delta by itself, as their order counts."""
        data = _encoder.encode(told) if told else b""
        for delta in deltas or [Said("")]:
            piece = replace(self.sent, told=data, **_part(delta))
            yield piece
            self.sent = replace(
                self.sent,
                at=piece.at + len(piece.text),
                reasoning_at=piece.reasoning_at + len(piece.reasoning),
                call_at=piece.call_at + (len(piece.call.text) if piece.call else 0),
                told_at=piece.told_at + (len(told) if data else 0),
            )
            data = b""


class Texts:
    """All that are being generated here."""

    def __init__(self, units: dict[str, Stash], watch: Watch, replies: Replies) -> None:
        self._replies = replies
        self._units = units
        self._watch = watch
        self._running: dict[int, _Text] = {}

    def begun(self, run: ev.Run, now: float) -> Generate:
        """The sequence as the runtime takes it."""
        (item,) = run.items
        stash = self._units[item.unit]
        prepared = stash.sequence(item.index)
        assert prepared.write is not None, "what is generated can be read"
        index, _ = stash.place(item.index)
        worker = self._replies.worker
        self._running[run.batch] = _Text(run, stash, index, prepared.write(), worker, now)
        return generate_of(run.batch, run.model, prepared)

    def model(self, batch: int) -> str | None:
        """Whose sequence it is; None once it is over."""
        text = self._running.get(batch)
        return None if text is None else text.run.model

    def chunk(self, chunk: Chunk) -> bool:
        """More of a text; whether it is to end here, as one of the texts that end it came."""
        text = self._running.get(chunk.batch)
        if text is None or text.ended:
            return False
        if text.first_s is None:
            text.first_s = time.monotonic() - text.began_at
        try:
            written = text.writing.add(from_wire(chunk.tokens), _told(chunk))
        except BaseException as error:  # a tokenizer may raise anything, and panic
            text.ended = True
            text.stash.fail(text.item, _unreadable(error))
            return True
        text.ended = written.ended
        unit = text.stash.unit
        if isinstance(unit.params, GenerateParams) and unit.params.stream and self._here(text):
            deltas = written.deltas
            if not unit.params.apart:
                deltas = [delta for delta in deltas if isinstance(delta, Said)]
            if deltas or written.told:
                for piece in text.pieces(deltas, written.told):
                    self._replies.more(unit, piece)
        return written.ended

    def over(self, lane: str, over: Generated) -> None:
        """A sequence ended: its unit has the whole text."""
        text = self._running.pop(over.batch, None)
        if text is None:
            return
        self._watch.generated(lane, text.run, over, text.first_s or 0.0)
        if not self._here(text) or text.item in text.stash.errors:
            return
        text.stash.computed(text.began_at, over.seconds, 1)
        try:
            text.stash.rows[text.item] = text.writing.end(over)
        except BaseException as error:
            text.stash.fail(text.item, _unreadable(error))

    def refused(self, batch: int, error: ErrorInfo) -> ErrorInfo:
        """It came back undone; where a grammar is at fault, the parameter is told that asked for it."""
        text = self._running.pop(batch, None)
        if text is None or error.code != InvalidRequest.code:
            return error
        params = text.stash.unit.params
        assert isinstance(params, GenerateParams), "it was generated"
        if params.grammar is not None:
            return msgspec.structs.replace(error, param=GRAMMAR_PARAMS[params.grammar[0]])
        return msgspec.structs.replace(error, param="tools") if params.tools else error

    def lost(self, lane: str, models: set[str]) -> None:
        """The runtime that held these models on this lane died with its sequences."""
        for batch, text in list(self._running.items()):
            if text.run.lane == lane and text.run.model in models:
                del self._running[batch]

    def _here(self, text: _Text) -> bool:
        return self._units.get(text.stash.unit.id) is text.stash


def generate_of(batch: int, model: str, prepared: Prepared) -> Generate:
    """A sequence that was prepared, as its runtime takes it."""
    assert prepared.sampling is not None, "it was prepared to be generated"
    assert prepared.ids is not None, "a prompt is ids"
    inputs = None if prepared.input is None else [to_wire(prepared.input)]
    ids = to_wire(np.ascontiguousarray(prepared.ids, dtype=np.int32))
    return Generate(batch, model, ids, prepared.sampling, inputs=inputs)


def _part(delta: Delta) -> dict[str, str | CallPart]:
    """The field of a piece that a delta is."""
    match delta:
        case Said(text):
            return {"text": text}
        case Thought(text):
            return {"reasoning": text}
        case Called(index, name, text):
            return {"call": CallPart(index, name, text)}
        case _:
            assert_never(delta)


def _unreadable(error: BaseException) -> ErrorInfo:
    return ComputeFailed(f"what was generated could not be read: {error}").info


def _told(chunk: Chunk) -> Told | None:
    if chunk.logprobs is None:
        return None
    tokens = chunk.tokens.shape[0]
    none_ids, none = np.zeros((tokens, 0), np.int32), np.zeros((tokens, 0), np.float32)
    return Told(
        from_wire(chunk.logprobs),
        none_ids if chunk.top_ids is None else from_wire(chunk.top_ids),
        none if chunk.top_logprobs is None else from_wire(chunk.top_logprobs),
    )
