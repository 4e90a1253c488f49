"""Texts that a test writes by hand, piece by piece, as one worker or as several."""

from __future__ import annotations

import math
from typing import Any

import msgspec
from msgspec.structs import replace

from shoal.tasks.generate.answer import Called, Delta, Said, Thought
from shoal.wire.objects import Alternative, Generation, TokenLogprob
from shoal.wire.queue import CallPart, Piece, Reply, Timings, Unit
from tests.gateway.conftest import until
from tests.gateway.scripted import ScriptedWorker


class Writing:
    """An `answer` that keeps units; what is said of them is said by the test."""

    def __init__(self, worker: ScriptedWorker) -> None:
        self._worker = worker
        self.units: list[tuple[Unit, str]] = []
        worker.answer = self

    def __call__(self, unit: Unit, ack: str) -> None:
        self.units.append((unit, ack))

    async def come(self, count: int = 1) -> Unit:
        """Wait until so many have come; the last of them."""
        await until(lambda: len(self.units) >= count)
        return self.units[count - 1][0]

    def piece(
        self,
        text: str,
        at: int,
        *,
        number: int = 0,
        worker: str = "scripted",
        told: list[TokenLogprob] | None = None,
        told_at: int = 0,
    ) -> None:
        unit, _ = self.units[number]
        packed = msgspec.msgpack.encode(told) if told else b""
        piece = Piece(unit.id, worker, 0, at, text, packed, told_at)
        self._worker.send_piece(unit, piece)

    def tell(self, *deltas: Delta, number: int = 0, worker: str = "scripted") -> None:
        """Of a text that nothing was told of."""
        unit, _ = self.units[number]
        for piece in pieces_of(unit.id, list(deltas), worker):
            self._worker.send_piece(unit, piece)

    def whole(self, text: str, *, number: int = 0, worker: str = "scripted", **more: Any) -> None:
        """The answer; without a word on its tokens one of two, of a prompt of three."""
        fields = {"finish": "stop", "prompt_tokens": 3, "new_tokens": 2, **more}
        packed = msgspec.msgpack.encode(Generation(text, **fields))
        unit, ack = self.units[number]
        timings = Timings(0.001, 0.002, 0.003, 0.004, 1)
        reply = Reply(unit.id, worker, ack, [3], objects=[packed], timings=timings)
        self._worker.send(unit, reply)

    def fail(self, error: Any, *, number: int = 0) -> None:
        """The item's error is the answer."""
        unit, ack = self.units[number]
        self._worker.send(unit, Reply(unit.id, "scripted", ack, [0], errors={0: error}))


def pieces_of(unit: str, deltas: list[Delta], worker: str = "scripted") -> list[Piece]:
    """One a delta, as a worker sends them."""
    pieces, at, reasoning_at, call_at = [], 0, 0, 0
    for delta in deltas:
        piece = Piece(unit, worker, 0, at, "", reasoning_at=reasoning_at, call_at=call_at)
        match delta:
            case Said(text):
                pieces.append(replace(piece, text=text))
                at += len(text)
            case Thought(text):
                pieces.append(replace(piece, reasoning=text))
                reasoning_at += len(text)
            case Called(index, name, text):
                pieces.append(replace(piece, call=CallPart(index, name, text)))
                call_at += len(text)
    return pieces


def token(text: str, logprob: float = -0.5, *others: str) -> TokenLogprob:
    """A token, and others that could have stood there, each half as likely as the one before."""
    top = [
        Alternative(other, other.encode(), -0.5 + n * math.log(0.5))
        for n, other in enumerate(others)
    ]
    return TokenLogprob(text, text.encode(), logprob, top)
