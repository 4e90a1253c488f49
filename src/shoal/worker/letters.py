"""Dead letters: a unit that is given up is on the broker's disk before its caller is told.

Performs `SetAside`: stores the letter beside the loop and holds the unit's answer back meanwhile.
It must not know why a unit is given up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from shoal.broker import letters
from shoal.broker.base import Delivery
from shoal.broker.connection import Connection
from shoal.core import events as ev
from shoal.errors import PayloadTooLarge, ProtocolError, ShoalError, Unavailable
from shoal.telemetry import log
from shoal.telemetry.background import background
from shoal.telemetry.metrics import WorkerMetrics
from shoal.wire.codec import encode
from shoal.wire.queue import DeadLetter
from shoal.worker.replies import Replies
from shoal.worker.stash import Stash

_log = log.get(__name__)

#: How long a letter is tried before its caller is told without it: a restart of the broker.
KEEP_S = 20.0
_RETRY_S = 0.5
TOO_LARGE = " (its content is over the broker's message limit and was not kept)"


class Letters:
    """The dead letters of one worker."""

    def __init__(
        self,
        connection: Connection,
        worker: str,
        pool: str,
        replies: Replies,
        metrics: WorkerMetrics,
    ) -> None:
        self._connection = connection
        self._worker = worker
        self._pool = pool
        self._replies = replies
        self._metrics = metrics
        self._tasks: set[asyncio.Task[None]] = set()

    def keep(self, stash: Stash, aside: ev.SetAside) -> None:
        """Store the unit; its answer waits until it is, or clearly cannot be."""
        unit = stash.unit
        letter = DeadLetter(
            encode(unit),
            aside.error.code,
            aside.error.message,
            self._worker,
            aside.strikes,
            aside.items,
            unit.model,
            unit.tenant,
            unit.request,
        )
        self._replies.withhold(unit.id)
        named = ".".join(map(str, [unit.id, *aside.items]))
        self._spawn(self._keep(letter, named, lambda kept: self._replies.release(stash)))

    def keep_unreadable(
        self, delivery: Delivery, error: ProtocolError, then: Callable[[], None]
    ) -> None:
        """Store what stood on the queue and could not be read, and `then` take it off there.

        If it cannot be stored it stays on the queue and comes again.
        """
        self._metrics.error(error.code)
        letter = DeadLetter(delivery.data, error.code, error.message, self._worker)
        named = f"unreadable.{delivery.stream_sequence}"
        self._spawn(self._keep(letter, named, lambda kept: then() if kept else None))

    async def close(self) -> None:
        """Give up what is not stored: its unit was not answered and goes to another worker."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = background(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

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
