"""One gateway process: its broker connection, its view of the fleet, its requests in flight.

Decides when the process is ready and what it publishes of itself. It must not know routes.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets

import msgspec

from shoal.broker.connection import Connection
from shoal.broker.streams import ensure_streams
from shoal.catalog.resolve import Catalog
from shoal.core.admission_events import Outstanding
from shoal.errors import BrokerError, PayloadTooLarge, ProtocolError, Unavailable
from shoal.gateway.budget import BodyBudget
from shoal.gateway.fleet import Fleet
from shoal.gateway.inflight import Inflight
from shoal.gateway.unread import Unread
from shoal.settings import GatewaySettings
from shoal.telemetry import log, trace
from shoal.telemetry.background import background
from shoal.telemetry.metrics import GatewayMetrics
from shoal.wire import subjects
from shoal.wire.codec import encode
from shoal.wire.queue import GatewayPulse, WorkerPulse, decode_queue

#: Seconds between pulses while work waits, and while none does.
BUSY_PULSE_S = 0.25
IDLE_PULSE_S = 1.0
#: And at least this, however often work comes to a model that had none: all workers and gateways
#: hear each of them.
LEAST_PULSE_S = 0.02
#: JetStream needs a moment after a restart.
STREAMS_AGAIN_S = 0.5

_log = log.get(__name__)


class Gateway:
    """What the routes share; `open` makes one."""

    def __init__(
        self, id_: str, settings: GatewaySettings, catalog: Catalog, connection: Connection
    ) -> None:
        self.id = id_
        self.settings = settings
        self.catalog = catalog
        self.metrics = GatewayMetrics()
        self.fleet = Fleet(settings.pool)
        self.inflight = Inflight(id_, settings, connection, self.fleet, self.metrics)
        self.tracer = trace.tracer(settings.otlp_endpoint, "shoal-gateway")
        self.bodies = BodyBudget(settings.max_bodies_bytes)
        self.unread = Unread(settings.max_unread_bytes)
        self.draining = False
        self._measured: set[str] = set()
        self._connection = connection
        self._pulse_now = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    async def open(
        cls, settings: GatewaySettings, catalog: Catalog, connect: type[Connection] = Connection
    ) -> Gateway:
        """Connect to the broker and begin to listen and to pulse.

        Raises:
            ConfigError, BrokerError, Unavailable: as `Connection.open` and `ensure_streams`.
        """
        id_ = f"g{secrets.token_hex(6)}"
        back = asyncio.Event()
        connection = await connect.open(settings, f"gateway-{id_}", on_reconnected=back.set)
        try:
            await ensure_streams(connection)
            self = cls(id_, settings, catalog, connection)
        except BaseException:
            await connection.close()
            raise
        self._listen(back)
        await connection.flush()
        return self

    def _listen(self, back: asyncio.Event) -> None:
        connection = self._connection
        connection.subscribe(subjects.reply_subject(self.id), self.inflight.on_reply)
        connection.subscribe(f"{subjects.WORKER_PULSES}.*", self._on_pulse)
        connection.subscribe(f"{subjects.GATEWAY_PULSES}.*", self._on_pulse)
        self.inflight.announce = self._pulse_now.set
        self.inflight.listening()
        self._tasks = [
            background(self._pulse_for_ever()),
            background(self._keep_streams(back)),
            background(self.inflight.uploads.sweep_for_ever()),
        ]

    async def close(self) -> None:
        """Stop pulsing and leave the broker."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.tell(Outstanding())  # the others need not wait until this one is taken for gone
        await self.inflight.uploads.close()
        await self._connection.close()
        if self.tracer is not None:
            await asyncio.to_thread(self.tracer.close)

    def missing(self) -> list[str]:
        """What keeps this gateway from answering; empty when it is ready."""
        why = []
        if self.draining:
            why.append("this gateway is shutting down")
        if not self._connection.connected:
            why.append("the broker is not reachable")
        elif (fault := self.inflight.queue_fault()) is not None:
            why.append(f"the broker did not take the latest unit: {fault}")
        elif not self.fleet.workers:
            why.append(f"no worker of pool '{self.settings.pool}' was heard lately")
        elif not self.fleet.ready:
            why.append("no worker says that it is ready")
        return why

    async def _keep_streams(self, back: asyncio.Event) -> None:
        """Make the streams again after each reconnect: the broker may have lost its disk."""
        while True:
            await back.wait()
            back.clear()
            self.inflight.reconnected()
            try:
                await ensure_streams(self._connection)
            except (BrokerError, Unavailable) as error:
                _log.event("streams_not_ensured", level="warning", error=error)
                await asyncio.sleep(STREAMS_AGAIN_S)
                back.set()

    # --- pulses -----------------------------------------------------------------------------------

    def _on_pulse(self, data: bytes, reply: str, status: str | None, subject: str) -> None:
        try:
            pulse = decode_queue(data)
        except ProtocolError as error:
            self.metrics.error(ProtocolError.code)
            _log.event("message_unreadable", level="warning", subject=subject, error=error)
            return
        if isinstance(pulse, WorkerPulse):
            self.fleet.heard(pulse, asyncio.get_running_loop().time())
            self.inflight.fleet_changed()
        elif isinstance(pulse, GatewayPulse) and self._is_peer(pulse):
            self.inflight.peer_heard(pulse)

    def _is_peer(self, pulse: GatewayPulse) -> bool:
        return pulse.pool == self.settings.pool and pulse.gateway != self.id

    async def _pulse_for_ever(self) -> None:
        while True:
            outstanding = self.inflight.outstanding()
            self._measure(outstanding)
            self.tell(outstanding)
            if self.fleet.forget_silent(asyncio.get_running_loop().time()):
                self.inflight.fleet_changed()
            await asyncio.sleep(LEAST_PULSE_S)
            period_s = BUSY_PULSE_S if outstanding else IDLE_PULSE_S
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._pulse_now.wait(), period_s)
            self._pulse_now.clear()

    def _measure(self, outstanding: Outstanding) -> None:
        self.metrics.broker_connected(self._connection.connected)
        self.metrics.outstanding_units(self.inflight.units)
        models = outstanding.outstanding_s.keys() | outstanding.bulk_s.keys()
        for model in self._measured | models:
            self.metrics.outstanding_seconds(
                model,
                outstanding.outstanding_s.get(model, 0.0),
                outstanding.queued_s.get(model, 0.0),
                outstanding.bulk_s.get(model, 0.0),
            )
        self._measured |= models

    def tell(self, outstanding: Outstanding) -> None:
        """Publish a pulse; one that is too large for a message goes without its tenants."""
        try:
            self._publish(outstanding)
        except PayloadTooLarge:
            by_model = msgspec.structs.replace(outstanding, waiting_s={}, bulk_waiting_s={})
            self._publish(by_model)

    def _publish(self, outstanding: Outstanding) -> None:
        pulse = GatewayPulse(
            self.id,
            self.settings.pool,
            outstanding.outstanding_s,
            outstanding.queued_s,
            outstanding.requests,
            outstanding.bulk_s,
            outstanding.waiting_s,
            outstanding.bulk_waiting_s,
        )
        with contextlib.suppress(Unavailable):
            self._connection.publish(f"{subjects.GATEWAY_PULSES}.{self.id}", encode(pulse))
