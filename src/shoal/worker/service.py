"""All parts of one worker process: made, connected, and ended without losing a unit."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket

from shoal.broker.connection import Connection
from shoal.broker.keepalive import Keepalive
from shoal.broker.kv import Bucket
from shoal.broker.payloads import Payloads
from shoal.broker.pulls import Puller
from shoal.broker.streams import ensure_streams
from shoal.catalog.fetch import cached
from shoal.catalog.resolve import Catalog
from shoal.core import events as ev
from shoal.core.config import WorkerConfig
from shoal.core.pulsing import PULSE_S
from shoal.core.worker import WorkerCore
from shoal.errors import ConfigError, ProtocolError, UnknownModel
from shoal.settings import WorkerSettings
from shoal.telemetry import log
from shoal.telemetry.background import background
from shoal.telemetry.metrics import WorkerMetrics
from shoal.telemetry.trace import tracer
from shoal.wire import subjects
from shoal.wire.queue import Cancel, GatewayPulse, WorkerPulse, decode_queue
from shoal.worker.claims import CLAIMS, Claims
from shoal.worker.devices import lanes_of, require
from shoal.worker.health import HealthServer
from shoal.worker.lanes import Lanes
from shoal.worker.letters import Letters
from shoal.worker.loop import Loop
from shoal.worker.memory import budgets
from shoal.worker.mending import Mending
from shoal.worker.models import spec_of
from shoal.worker.payloads import Fetching
from shoal.worker.peers import Peers, peer_event
from shoal.worker.preparing import Preparing
from shoal.worker.queue import WorkerQueue
from shoal.worker.replies import Replies
from shoal.worker.report import Report
from shoal.worker.spans import Spans
from shoal.worker.watch import Watch

_log = log.get(__name__)

#: How long to try to reach the broker at start, as it may start at the same moment.
CONNECT_S = 30.0
#: How long a load waits for its model's place on the queue: longer than a broker may refuse one, and
#: far less than what a load may take in all.
PLACE_S = 20.0
#: A batch takes a second at most; told to end at once, nobody waits for one.
RUNTIME_GRACE_S = 5.0
#: Two pulses of every other worker: by then this one knows what the pool has.
SETTLE_S = 2 * PULSE_S


class Worker:
    """All parts of one worker process."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings
        self.id = f"{socket.gethostname()}-{secrets.token_hex(4)}"
        catalog = Catalog.load(settings.catalog)
        specs = lanes_of(settings)
        require(specs)
        config = WorkerConfig(
            lanes=[spec.id for spec in specs],
            models=[
                spec_of(
                    card,
                    specs[0].profile(card),
                    cached(card, settings.cache_dir),
                    specs[0].device,
                )
                for card in catalog.cards()
            ],
            pinned=_pinned(catalog, settings.models),
            worker=self.id,
            lane_bytes=budgets(settings, specs),
            eviction=settings.eviction,
            rss_ceiling=settings.rss_ceiling,
            settle_s=SETTLE_S,
            on_demand=settings.on_demand,
            cooldown_s=settings.load_cooldown_s,
        )
        self.core = WorkerCore(config)
        self.metrics = WorkerMetrics()
        self._tracer = tracer(settings.otlp_endpoint, "shoal-worker")
        spans = None if self._tracer is None else Spans(self._tracer)
        self._watch = Watch(self.metrics, self.core.models, spans)
        self._loop = Loop(self.core, self._watch, catalog)
        self._lanes = Lanes(specs, catalog, settings, self._loop, self._before_load)
        self._mending = Mending(self.core.models, catalog, self._loop.emit)
        self._store = Payloads(settings.payload_url)
        self._preparing: Preparing | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._queue: WorkerQueue | None = None
        self._letters: Letters | None = None
        self._claims: Claims | None = None
        self._report: Report | None = None

    async def _before_load(self, model: str) -> None:
        """The model's place on the queue. A broker that stays away holds up no load: a runtime that
        waits for too long is taken for hung, and a first pull that finds no place makes it."""
        assert self._queue is not None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PLACE_S):
                await self._queue.ensure_consumer(model)

    async def start(self) -> None:
        """Connect, start the runtimes, load the pinned models, begin to pull."""
        settings, loop = self._settings, self._loop
        name = f"shoal-worker-{self.id}"
        connection = await Connection.open(
            settings,
            name,
            on_disconnected=lambda: self._once_attached(ev.BrokerLost()),
            on_reconnected=lambda: self._once_attached(ev.BrokerBack()),
            wait_s=CONNECT_S,
        )
        await ensure_streams(connection)
        keepalive = await Keepalive.open(settings, f"{name}-keepalive", settings.ack_wait_s)
        puller = Puller(connection, loop.delivered, loop.pull_ended)
        self._queue = WorkerQueue(connection, puller, keepalive, settings)
        fetching = Fetching(self._store, settings)
        self._preparing = Preparing(loop.prepared, fetching)
        replies = Replies(connection, self.id, loop.emit)
        self._letters = Letters(
            connection, self._store, self.id, settings.pool, replies, self.metrics
        )
        self._claims = Claims(
            Bucket(connection, CLAIMS), settings.pool, self.id, self.metrics, loop.emit
        )
        peers = Peers(connection, self.id, settings.pool, loop.emit)
        loop.attach(
            self._queue,
            replies,
            self._letters,
            self._lanes,
            self._claims,
            peers,
            self._preparing,
        )
        connection.subscribe(subjects.CANCELS, self._cancelled)
        connection.subscribe(f"{subjects.GATEWAY_PULSES}.*", self._gateway_pulsed)
        connection.subscribe(f"{subjects.WORKER_PULSES}.*", self._worker_pulsed)
        identity = WorkerPulse(
            self.id, settings.pool, socket.gethostname(), list(self._lanes.specs), {}
        )
        report = self._report = Report(self.core, self._lanes, self._watch, connection, identity)
        self._health = HealthServer(settings, report, self.metrics)
        self._health.start()
        self._tasks = [
            background(report.pulse_forever()),
            background(report.probe_forever()),
            background(self._mending.look_forever()),
        ]
        _log.event(
            "worker_started",
            worker=self.id,
            lanes=",".join(identity.lanes),
            health=self._health.url,
        )
        loop.emit(ev.Ticked())

    @property
    def health_url(self) -> str:
        """Base URL of /healthz, /readyz and /metrics."""
        return self._health.url

    def _once_attached(self, event: ev.Event) -> None:
        """Emit what may come while this worker still starts, when no part is there to act on it."""
        if self._loop.attached:
            self._loop.emit(event)

    def _cancelled(self, data: bytes, reply: str, status: str | None, subject: str) -> None:
        message = _decoded(data)
        if isinstance(message, Cancel):
            self._loop.emit(ev.Cancelled(message.requests))

    def _gateway_pulsed(self, data: bytes, reply: str, status: str | None, subject: str) -> None:
        message = _decoded(data)
        if isinstance(message, GatewayPulse) and message.pool == self._settings.pool:
            demand = ev.DemandSeen(message.gateway, message.outstanding_s, message.bulk_s)
            self._loop.emit(demand)

    def _worker_pulsed(self, data: bytes, reply: str, status: str | None, subject: str) -> None:
        message = _decoded(data)
        if not isinstance(message, WorkerPulse) or message.worker == self.id:
            return
        if message.pool == self._settings.pool:
            self._loop.emit(peer_event(message))

    async def drain(self) -> None:
        """Give back what has not started, answer the rest."""
        _log.event("worker_draining", units=len(self.core.units))
        if not await self._loop.drained(self._settings.drain_s):
            _log.event("drain_timed_out", level="warning", units=len(self.core.units))

    async def close(self, grace_s: float = RUNTIME_GRACE_S) -> None:
        """End everything; units still held go to other workers after `ack_wait_s`.

        `grace_s`: how long a runtime may take to end after each request, before it is killed.
        """
        self._once_attached(ev.DrainBegan())
        for task in self._tasks:
            task.cancel()
        if self._report is not None:
            self._report.look()  # others hear that this one leaves, and need not wait to miss it
        if self._preparing is not None:
            await asyncio.to_thread(self._preparing.stop)
        self._loop.finishing.stop()
        await self._lanes.stop(grace_s)
        if self._tasks:
            await self._health.stop()
        if self._letters is not None:
            await self._letters.close()
        if self._claims is not None:
            await self._claims.close()
        if self._queue is not None:
            await self._queue.close()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._tracer is not None:
            await asyncio.to_thread(self._tracer.close)
        _log.event("worker_stopped", worker=self.id)


def _pinned(catalog: Catalog, models: list[str]) -> list[str]:
    """Their names. Raises `ConfigError` for one that has no card."""
    try:
        return [catalog.card(name).name for name in models]
    except UnknownModel as error:
        raise ConfigError(
            f"models: {error.message}; `shoal models list` tells which there are, with the same --catalog"
        ) from None


def _decoded(data: bytes) -> object:
    try:
        return decode_queue(data)
    except ProtocolError as error:
        _log.event("message_unreadable", level="warning", error=str(error))
        return None
