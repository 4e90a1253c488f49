"""The worker's side of the broker: pulls, what is said of deliveries, and the consumers behind them."""

from __future__ import annotations

import asyncio
import contextlib

from shoal.broker.connection import Connection
from shoal.broker.keepalive import Keepalive
from shoal.broker.pulls import Puller
from shoal.broker.streams import ensure_consumer, ensure_streams
from shoal.errors import BrokerError, Unavailable
from shoal.settings import WorkerSettings
from shoal.telemetry import log
from shoal.telemetry.background import background
from shoal.values import TrafficClass
from shoal.wire import subjects

_log = log.get(__name__)

_RETRY_S = 0.5


class WorkerQueue:
    """Everything a worker says to JetStream. Losing the connection is never an error here:
    what was not said is said by redelivery."""

    def __init__(
        self, connection: Connection, puller: Puller, keepalive: Keepalive, settings: WorkerSettings
    ) -> None:
        self._connection = connection
        self._puller = puller
        self._keepalive = keepalive
        self._settings = settings
        self._models: set[str] = set()
        self._restoring: asyncio.Task[None] | None = None

    async def ensure_consumer(self, model: str) -> None:
        """Make sure that the model's consumers are there, waiting for the broker if need be."""
        self._models.add(model)
        while True:
            try:
                await ensure_streams(self._connection)
                for klass in subjects.CLASSES:
                    await ensure_consumer(
                        self._connection,
                        klass,
                        self._settings.pool,
                        model,
                        self._settings.ack_wait_s,
                    )
                return
            except (Unavailable, BrokerError) as error:
                _log.event("consumer_not_ready", level="warning", model=model, error=str(error))
                await asyncio.sleep(_RETRY_S)

    def restore_consumers(self) -> None:
        """A consumer is gone (deleted, or the broker lost its store): make them all again."""
        if self._restoring is None or self._restoring.done():
            self._restoring = background(self._restore())

    async def _restore(self) -> None:
        for model in list(self._models):
            await self.ensure_consumer(model)

    def pull(
        self, pull: int, klass: TrafficClass, model: str, count: int, expires_s: float | None
    ) -> None:
        """Raises `Unavailable` while disconnected."""
        self._puller.pull(pull, klass, self._settings.pool, model, count, expires_s)

    def withdraw(self, pull: int) -> None:
        self._puller.withdraw(pull)

    def hold(self, ack: str) -> None:
        """Keep the delivery ours."""
        self._keepalive.hold(ack)

    def release(self, ack: str) -> None:
        self._keepalive.release(ack)

    def nak(self, ack: str, delay_s: float) -> None:
        with contextlib.suppress(Unavailable):
            self._connection.nak(ack, delay_s)

    def term(self, ack: str, reason: str) -> None:
        with contextlib.suppress(Unavailable):
            self._connection.term(ack, reason)

    async def close(self) -> None:
        if self._restoring is not None:
            self._restoring.cancel()
        self._puller.close()
        await self._keepalive.close()
        await self._connection.close()
