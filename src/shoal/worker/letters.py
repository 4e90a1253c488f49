"""Dead letters: a unit that is given up is on the broker's disk before its caller is told.

Performs `SetAside`: stores the letter beside the loop and holds the unit's answer back meanwhile.
It must not know why a unit is given up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from shoal.broker import letters
from shoal.broker.base import Delivery
from shoal.broker.connection import Connection
from shoal.broker.payloads import Payloads
from shoal.core import events as ev
from shoal.errors import PayloadTooLarge, ProtocolError, ShoalError, Unavailable
from shoal.telemetry import log
from shoal.telemetry.background import background
from shoal.telemetry.metrics import WorkerMetrics
from shoal.wire.codec import encode
from shoal.wire.queue import DeadLetter, Unit
from shoal.worker.replies import Replies
from shoal.worker.stash import Stash

_log = log.get(__name__)

#: How long a letter is tried before its caller is told without it: a restart of the broker.
KEEP_S = 20.0
_RETRY_S = 0.5
TOO_LARGE = " (its content is over the broker's message limit and was not kept)"
PAYLOADS_GONE = " (its large items could not be kept)"
#: Left of the broker's message limit for headers and the letter's own fields.
_ROOM_BYTES = 8192


class Letters:
    """The dead letters of one worker. `store`: where large items lie until their unit is answered."""

    def __init__(
        self,
        connection: Connection,
        store: Payloads,
        worker: str,
        pool: str,
        replies: Replies,
        metrics: WorkerMetrics,
    ) -> None:
        self._connection = connection
        self._store = store
        self._worker = worker
        self._pool = pool
        self._replies = replies
        self._metrics = metrics
        self._tasks: set[asyncio.Task[None]] = set()

    def keep(self, stash: Stash, aside: ev.SetAside) -> None:
        """Store the unit; its answer waits until it is, or clearly cannot be."""
        self._replies.withhold(stash.unit.id)
        background(self._keep_unit(stash, aside), self._tasks)

    def keep_unreadable(
        self, delivery: Delivery, error: ProtocolError, then: Callable[[], None]
    ) -> None:
        """Store what stood on the queue and could not be read, and `then` take it off there.

        If it cannot be stored it stays on the queue and comes again.
        """
        self._metrics.error(error.code)
        letter = DeadLetter(delivery.data, error.code, error.message, self._worker)
        named = f"unreadable.{delivery.stream_sequence}"
        background(self._keep(letter, named, lambda kept: then() if kept else None), self._tasks)

    async def close(self) -> None:
        """Give up what is not stored: its unit was not answered and goes to another worker."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _keep_unit(self, stash: Stash, aside: ev.SetAside) -> None:
        items = stash.at_fault(aside.items)
        unit, lost = await self._with_payloads(stash.unit, items)
        letter = DeadLetter(
            encode(unit),
            aside.error.code,
            aside.error.message + lost,
            self._worker,
            aside.strikes,
            items,
            unit.model,
            unit.tenant,
            unit.request,
        )
        named = ".".join(map(str, [unit.id, *items]))
        await self._keep(letter, named, lambda kept: self._replies.release(stash))

    async def _with_payloads(self, unit: Unit, places: list[int]) -> tuple[Unit, str]:
        """The unit with its large items in it: the store lets go of them once it is answered."""
        wanted = {p: unit.payloads[p] for p in places or unit.payloads if p in unit.payloads}
        size = sum(map(len, unit.items)) + sum(payload.bytes for payload in wanted.values())
        if wanted and size > self._connection.max_payload - _ROOM_BYTES:
            return unit, PAYLOADS_GONE
        items, payloads = list(unit.items), dict(unit.payloads)
        try:
            for place, payload in wanted.items():
                items[place] = bytes(await self._store.get(payload.key))
                del payloads[place]
        except ShoalError as error:
            _log.event("payload_not_kept", level="error", unit=unit.id, error=str(error))
            return unit, PAYLOADS_GONE
        return msgspec.structs.replace(unit, items=items, payloads=payloads), ""

    async def _keep(self, letter: DeadLetter, named: str, then: Callable[[bool], None]) -> None:
        about = {"model": letter.model, "request": letter.request, "reason": letter.reason}
        try:
            id_ = await self._stored(letter, named)
            _log.event("dead_letter_kept", level="error", id=id_, **about)
        except ShoalError as error:
            self._metrics.dead_letter_not_kept()
            _log.event("dead_letter_not_kept", level="error", error=str(error), **about)
            then(False)
        else:
            then(True)

    async def _stored(self, letter: DeadLetter, named: str) -> int:
        deadline = asyncio.get_running_loop().time() + KEEP_S
        while True:
            try:
                return await letters.keep(self._connection, self._pool, letter, named)
            except PayloadTooLarge:
                if not letter.data:
                    raise
                reason = letter.reason + TOO_LARGE
                letter = msgspec.structs.replace(letter, data=b"", reason=reason)
            except Unavailable:
                if asyncio.get_running_loop().time() > deadline:
                    raise
                await asyncio.sleep(_RETRY_S)
