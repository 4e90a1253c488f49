"""Keeps held units ours: `in_progress` for each, from a thread and a connection of its own.

A worker whose event loop stalls still holds its units; without this the broker would hand all of
them to other workers at once. The thread knows ack subjects and nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading

from shoal.broker.connection import Connection
from shoal.errors import ShoalError
from shoal.settings import CommonSettings

_log = logging.getLogger(__name__)

# Two may get lost (a reconnect, a busy broker) before a unit is given to someone else.
_PER_ACK_WAIT = 3
_JOIN_S = 10.0


class Keepalive:
    """Sends ``+WPI`` for every held unit three times per `ack_wait`; make it with `open`."""

    def __init__(self, settings: CommonSettings, name: str, ack_wait_s: float) -> None:
        self._settings = settings
        self._name = name
        self._period_s = ack_wait_s / _PER_ACK_WAIT
        # Insertion and removal of a dict key are atomic; the thread iterates over a copy.
        self._held: dict[str, None] = {}
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="keepalive", daemon=True)
        self._wait_s: float
        self._opened: asyncio.Future[None]

    @classmethod
    async def open(
        cls, settings: CommonSettings, name: str, ack_wait_s: float, *, wait_s: float = 5.0
    ) -> Keepalive:
        """Start the thread and connect. Raises what `Connection.open` raises."""
        self = cls(settings, name, ack_wait_s)
        self._wait_s = wait_s
        self._opened = asyncio.get_running_loop().create_future()
        self._thread.start()
        await self._opened
        return self

    def hold(self, ack: str) -> None:
        """From now on the unit is extended."""
        self._held[ack] = None

    def release(self, ack: str) -> None:
        """No longer; fine for a unit that is not held."""
        self._held.pop(ack, None)

    @property
    def held(self) -> int:
        return len(self._held)

    async def close(self) -> None:
        """Stop extending, disconnect, end the thread."""
        with contextlib.suppress(RuntimeError):  # its loop is closed already
            self._loop.call_soon_threadsafe(self._stop.set)
        await asyncio.to_thread(self._thread.join, _JOIN_S)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._extend())
        finally:
            self._loop.close()

    async def _extend(self) -> None:
        opener = self._opened.get_loop()
        try:
            connection = await Connection.open(self._settings, self._name, wait_s=self._wait_s)
        except Exception as error:  # the edge of the thread: it becomes the error of `open`
            opener.call_soon_threadsafe(_fail, self._opened, error)
            return
        opener.call_soon_threadsafe(_done, self._opened)
        while not self._stop.is_set():
            self._extend_all(connection)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._stop.wait(), self._period_s)
        await connection.close()

    def _extend_all(self, connection: Connection) -> None:
        try:
            for ack in list(self._held):
                connection.in_progress(ack)
        except ShoalError as error:
            fields = {"units": len(self._held), "error": str(error)}
            _log.warning("units_not_extended", extra={"fields": fields})


def _done(opened: asyncio.Future[None]) -> None:
    if not opened.done():
        opened.set_result(None)


def _fail(opened: asyncio.Future[None], error: Exception) -> None:
    if not opened.done():
        opened.set_exception(error)
