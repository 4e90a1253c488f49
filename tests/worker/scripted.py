"""A gateway of a few lines: publishes units, collects replies, acks them or not."""

from __future__ import annotations

import asyncio
import itertools
import secrets
import time
from collections.abc import Callable

import msgspec

from shoal.broker.connection import Connection
from shoal.values import EncodeParams, TrafficClass
from shoal.wire import subjects
from shoal.wire.codec import encode
from shoal.wire.queue import (
    Cancel,
    GatewayPulse,
    Piece,
    Reply,
    ReplyPart,
    Unit,
    WorkerPulse,
    decode_queue,
)

MODEL = "fake"
POOL = "default"


class ScriptedGateway:
    """One gateway; `acks` says whether it settles what it gets."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.id = f"g{secrets.token_hex(4)}"
        self.acks = True
        self.replies: list[Reply] = []
        self.parts: list[ReplyPart] = []
        self.pieces: list[Piece] = []
        self.pulses: dict[str, WorkerPulse] = {}
        self._numbers = itertools.count()
        self._subscription = connection.subscribe(subjects.reply_subject(self.id), self._heard)
        connection.subscribe(f"{subjects.WORKER_PULSES}.*", self._pulsed)

    def _heard(self, data: bytes, reply: str, status: str | None, subject: str) -> None:
        message = decode_queue(data)
        if isinstance(message, Piece):
            self.pieces.append(message)
            return
        if isinstance(message, ReplyPart):
            self.parts.append(message)
            if message.part < message.parts - 1:
                return
            whole = b"".join(part.data for part in self.parts if part.unit == message.unit)
            message = decode_queue(whole)
        assert isinstance(message, Reply)
        self.replies.append(message)
        if self.acks:
            self.connection.ack(message.ack, reply)

    def _pulsed(self, data: bytes, reply: str, status: str | None, subject: str) -> None:
        pulse = decode_queue(data)
        assert isinstance(pulse, WorkerPulse)
        self.pulses[pulse.worker] = pulse

    def go_away(self) -> None:
        """Stop listening, as a gateway that died."""
        self.connection.unsubscribe(self._subscription)

    async def publish(self, items: list[object], budget_s: float = 60.0, **fields: object) -> Unit:
        """Put one unit on the queue."""
        number = next(self._numbers)
        unit = Unit(
            id=f"{self.id}.{number}",
            request=f"{self.id}-{number}",
            model=MODEL,
            task="encode",
            params=EncodeParams(),
            encoding="json",
            items=[msgspec.json.encode(item) for item in items],
            budget_s=budget_s,
            reply_to=subjects.reply_subject(self.id),
        )
        unit = msgspec.structs.replace(unit, **fields)
        await self.put(encode(unit), unit.id, budget_s, unit.model, unit.klass)
        return unit

    async def put(
        self,
        data: bytes,
        message_id: str,
        ttl_s: float = 60.0,
        model: str = MODEL,
        klass: TrafficClass = "work",
    ) -> None:
        subject = subjects.work_subject(klass, POOL, model)
        await self.connection.publish_unit(subject, data, ttl_s, message_id)

    async def reply(self, unit: Unit, timeout_s: float = 30.0) -> Reply:
        """The first reply to this unit."""
        await until(lambda: any(r.unit == unit.id for r in self.replies), timeout_s)
        return next(r for r in self.replies if r.unit == unit.id)

    def cancel(self, unit: Unit) -> None:
        self.connection.publish(subjects.CANCELS, encode(Cancel([unit.request])))

    def demand(self, model: str, seconds: float = 1.0, bulk_s: float = 0.0) -> None:
        work = {model: seconds} if seconds else {}
        pulse = encode(GatewayPulse(self.id, POOL, work, bulk_s={model: bulk_s} if bulk_s else {}))
        self.connection.publish(f"{subjects.GATEWAY_PULSES}.{self.id}", pulse)


async def until(condition: Callable[[], bool], timeout_s: float = 30.0) -> None:
    """Wait for a condition. Raises `AssertionError` if it does not come true in time."""
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "the condition did not come true in time"
        await asyncio.sleep(0.005)
