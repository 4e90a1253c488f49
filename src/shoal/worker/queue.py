"""The worker's side of the broker: pulls, what is said of deliveries, and the consumers behind them."""

from __future__ import annotations

import asyncio
import contextlib

from shoal.broker.connection import Connection
from shoal.broker.keepalive import Keepalive
from shoal.broker.pulls import Puller
from shoal.broker.streams import ensure_consumer, ensure_streams
from shoal.errors import BrokerError, ShoalError, Unavailable
from shoal.settings import WorkerSettings
from shoal.telemetry import log
from shoal.telemetry.background import background
from shoal.values import TrafficClass
from shoal.wire import subjects

_log = log.get(__name__)

_RETRY_S = 0.5
#: A broker that recovers may refuse for some seconds what it takes afterwards.
REFUSED_S = 10.0


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
        """Make sure that the model's consumers are there, waiting for a broker that is away.

        Raises:
            BrokerError: it is there, and has refused for `REFUSED_S`.
        """
        self._models.add(model)
        give_up_at = asyncio.get_running_loop().time() + REFUSED_S
        while True:
            try:
                await self._ensure(model)
                return
            except Unavailable as error:
                refusal: ShoalError = error
            except BrokerError as error:
                if asyncio.get_running_loop().time() >= give_up_at:
                    raise
                refusal = error
            _log.event("consumer_not_ready", level="warning", model=model, error=refusal.message)
            await asyncio.sleep(_RETRY_S)

    async def _ensure(self, model: str) -> None:
        await ensure_streams(self._connection)
        pool, ack_wait_s = self._settings.pool, self._settings.ack_wait_s
        for klass in subjects.CLASSES:
            await ensure_consumer(self._connection, klass, pool, model, ack_wait_s)

    def restore_consumers(self) -> None:
        """A consumer is gone (deleted, or the broker lost its store): make them all again."""
        if self._restoring is None or self._restoring.done():
            self._restoring = background(self._restore())

    async def _restore(self) -> None:
        for model in list(self._models):
            try:
                await self.ensure_consumer(model)
            except BrokerError as error:  # the next pull that finds none begins anew
                _log.event("consumer_refused", level="error", model=model, error=error.message)

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
