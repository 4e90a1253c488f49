"""Claims on the broker: one key a model, which one worker of the pool can have at a time.

Performs `Claim` and `Unclaim`; what a claim is for is the core's decision. While the broker is away
every claim is refused, and the core asks again later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from shoal.broker.kv import Bucket
from shoal.core import events as ev
from shoal.errors import ShoalError
from shoal.telemetry import log
from shoal.telemetry.metrics import WorkerMetrics
from shoal.wire import subjects

_log = log.get(__name__)

#: Name of the bucket.
CLAIMS = "shoal-claims"


class Claims:
    """The claims of one worker; asks about one model are made in order."""

    def __init__(
        self,
        bucket: Bucket,
        pool: str,
        worker: str,
        metrics: WorkerMetrics,
        emit: Callable[[ev.Event], None],
    ) -> None:
        self._bucket = bucket
        self._pool = pool
        self._worker = worker
        self._metrics = metrics
        self._emit = emit
        self._ready = False
        self._revisions: dict[str, int] = {}
        self._last: dict[str, asyncio.Task[None]] = {}

    def claim(self, model: str, ttl_s: float) -> None:
        """Get or renew the claim; `Claimed` or `ClaimRefused` follows."""
        self._after_last(model, self._claim(model, ttl_s))

    def unclaim(self, model: str) -> None:
        """Give the claim up."""
        self._after_last(model, self._unclaim(model))

    async def close(self) -> None:
        """Give up what is asked for; claims that were had end by themselves."""
        tasks = list(self._last.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _after_last(self, model: str, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(_in_turn(self._last.get(model), work))
        self._last[model] = task
        task.add_done_callback(lambda done: self._done(model, done))

    def _done(self, model: str, task: asyncio.Task[None]) -> None:
        if self._last.get(model) is task:
            del self._last[model]

    async def _claim(self, model: str, ttl_s: float) -> None:
        try:
            revision = await self._put(model, ttl_s)
        except ShoalError as error:
            self._ready = False
            revision = None
            _log.event("claim_failed", level="warning", model=model, error=error.message)
        self._metrics.claim("refused" if revision is None else "granted")
        if revision is None:
            self._revisions.pop(model, None)
            self._emit(ev.ClaimRefused(model))
            return
        if model not in self._revisions:
            _log.event("claimed", level="debug", model=model)
        self._revisions[model] = revision
        self._emit(ev.Claimed(model))

    async def _put(self, model: str, ttl_s: float) -> int | None:
        if not self._ready:
            await self._bucket.ensure()
            self._ready = True
        key = f"{subjects.token(self._pool)}.{subjects.token(model)}"
        value, held = self._worker.encode(), self._revisions.get(model)
        if held is None:
            return await self._bucket.create(key, value, ttl_s)
        return await self._bucket.update(key, value, ttl_s, held)

    async def _unclaim(self, model: str) -> None:
        revision = self._revisions.pop(model, None)
        if revision is None:
            return
        try:
            await self._bucket.delete(revision)
        except ShoalError as error:  # it ends by itself
            _log.event("unclaim_failed", level="warning", model=model, error=error.message)


async def _in_turn(last: asyncio.Task[None] | None, work: Coroutine[Any, Any, None]) -> None:
    try:
        if last is not None:
            await asyncio.wait([last])
    except asyncio.CancelledError:
        work.close()
        raise
    await work
