"""Large items of requests in flight: uploaded beside their units, deleted after the answer.

Decides which items are too large for the queue, how many are uploaded at a time, and when their
bytes are let go: as soon as the store has them. It must not know HTTP or what an item means.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from shoal.broker.payloads import Payloads
from shoal.core import admission_events as ev
from shoal.errors import ConfigError, PayloadTooLarge, ShoalError
from shoal.gateway.job import Call, Job
from shoal.settings import GatewaySettings
from shoal.telemetry import log
from shoal.telemetry.background import background
from shoal.telemetry.metrics import GatewayMetrics
from shoal.wire.queue import Payload

_log = log.get(__name__)

#: Uploads at a time: enough to fill the network, few enough that the first ones are soon whole.
UPLOADS = 8
#: What a unit takes of the broker's message limit beside its items: ids, options, a trace, headers.
UNIT_ROOM_BYTES = 16 * 1024
#: Items up to this size are copied out of a body whose large ones are uploaded, so that it can be
#: let go; larger ones, on the queue in full, keep it until the answer.
COPY_BYTES = 64 * 1024


class Uploads:
    """The payloads of one gateway's requests."""

    def __init__(
        self,
        settings: GatewaySettings,
        max_payload: int,
        metrics: GatewayMetrics,
        emit: Callable[[ev.Event], None],
    ) -> None:
        """`max_payload`: the broker's message limit. Raises `ConfigError` for a wrong URL."""
        self._store = Payloads(settings.payload_url)
        self._most_bytes = max_payload - UNIT_ROOM_BYTES
        self.above_bytes = min(settings.payload_bytes, self._most_bytes)
        self._settings = settings
        self._metrics = metrics
        self._emit = emit
        self._slots = asyncio.Semaphore(UPLOADS)
        self._cleaning: set[asyncio.Task[None]] = set()

    def of(self, job: Job) -> dict[int, Payload]:
        """Position -> where an item will lie that is too large for the queue.

        Raises:
            PayloadTooLarge: there is one, and no store.
        """
        above_bytes = min(self.above_bytes, self._most_bytes - job.reading.carried_bytes)
        large = [n for n, item in enumerate(job.items) if len(item) > above_bytes]
        if large and not self._store.configured:
            raise PayloadTooLarge(
                f"item {large[0]} has {len(job.items[large[0]])} bytes; above {above_bytes} "
                "it would need a payload store, and this deployment has none: set payload_url"
            )
        first: dict[int, int] = {}  # what is asked several times is one item at several positions
        at = {n: first.setdefault(id(job.items[n]), n) for n in large}
        return {n: Payload(f"{job.key}.{at[n]}", len(job.items[n])) for n in large}

    def begin(self, call: Call) -> None:
        """Upload what is large in `call`, unless that is refused already; failing is an event."""
        if not call.payloads or call.done.done():
            return
        items = call.job.items
        for position, item in enumerate(items):
            if len(item) <= COPY_BYTES:
                items[position] = bytes(item)
        positions: dict[str, list[int]] = {}
        for position, payload in call.payloads.items():
            positions.setdefault(payload.key, []).append(position)
        call.uploads = {
            key: background(self._upload(call, key, where)) for key, where in positions.items()
        }

    async def _upload(self, call: Call, key: str, positions: list[int]) -> None:
        items = call.job.items
        try:
            async with self._slots:
                call.begun.add(key)
                await self._store.put(key, items[positions[0]])
        except ShoalError as error:
            self._metrics.payload("failed")
            _log.event("payload_failed", level="error", key=key, error=error.message)
            self._emit(ev.PublishRefused(_unit_with(call, positions[0]), error))
            return
        finally:
            for position in positions:
                items[position] = b""
        self._metrics.payload("uploaded")
        if not call.done.done() and not any(isinstance(item, memoryview) for item in items):
            call.job.let_go()

    def end(self, call: Call) -> None:
        """The request is over: delete what it uploaded, once it is there.

        Uploads under way go on, and view the body until they end; the others do not begin.
        """
        if call.uploads:
            call.job.keep()
            for position in call.payloads:
                call.job.items[position] = b""
            for key, upload in call.uploads.items():
                if key not in call.begun:
                    upload.cancel()
            background(self._clean(call), self._cleaning)

    async def _clean(self, call: Call) -> None:
        await asyncio.wait(call.uploads.values())
        call.job.let_go()
        try:
            await self._store.delete(list(call.uploads))
        except ShoalError as error:  # the sweep finds them
            _log.event("payloads_not_deleted", level="warning", error=error.message)

    async def sweep_for_ever(self) -> None:
        """Now and again, delete what gateways that were killed left behind.

        Every gateway does; that two find the same payload does no harm.
        """
        period_s = self._settings.payload_sweep_s
        while self._store.configured:
            try:
                swept = await self._store.sweep(self._settings.max_timeout_s + period_s)
                self._metrics.payload("swept", swept)
            except ShoalError as error:
                _log.event("payloads_not_swept", level="warning", error=error.message)
                if isinstance(error, ConfigError):
                    return  # each request that needs the store is told, too
            await asyncio.sleep(period_s)

    async def close(self) -> None:
        """Wait until what is over is deleted."""
        await asyncio.gather(*self._cleaning, return_exceptions=True)


def _unit_with(call: Call, position: int) -> str:
    return next(unit for unit, s in call.spans.items() if position in s.positions)
