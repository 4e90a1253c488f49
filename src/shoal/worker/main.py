"""The worker process: follows signals, and ends without losing a unit.

The first SIGTERM drains: what has not started is given back, what has is answered within `drain_s`.
The second one does not wait: units still held go to other workers after `ack_wait_s`.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Coroutine
from typing import Any

import uvloop

from shoal.errors import WorkerCrashed
from shoal.settings import WorkerSettings
from shoal.telemetry import log
from shoal.telemetry.heap import keep_for_good
from shoal.worker.service import RUNTIME_GRACE_S, Worker

#: As `RUNTIME_GRACE_S`, where it is to end at once.
HURRIED_S = 0.2


def run(settings: WorkerSettings) -> None:
    """Run a worker until SIGTERM or SIGINT. Raises `ShoalError` if it cannot start."""
    log.configure(settings.log_level, settings.log_format)
    # One preparing thread is enough; the tokenizer's own pool would take cores from the lanes.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    uvloop.run(_run(settings))


async def _run(settings: WorkerSettings) -> None:
    loop = asyncio.get_running_loop()
    stop, at_once = asyncio.Event(), asyncio.Event()
    crashes: list[str] = []

    def crashed(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        # A worker whose state may be wrong must not go on: its units go to another.
        crashes.append(context["message"])
        loop.default_exception_handler(context)
        stop.set()
        at_once.set()

    def signalled() -> None:
        (at_once if stop.is_set() else stop).set()

    loop.set_exception_handler(crashed)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signalled)
    worker = Worker(settings)
    try:
        if await _unless(stop, worker.start()):
            keep_for_good()
            await stop.wait()
            await _unless(at_once, worker.drain())
    finally:
        await worker.close(HURRIED_S if at_once.is_set() else RUNTIME_GRACE_S)
    if crashes:
        raise WorkerCrashed(f"{crashes[0]}; the log has the traceback")


async def _unless(event: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Do `work`, or give it up when `event` comes; whether it was done."""
    task, called_off = asyncio.create_task(work), asyncio.create_task(event.wait())
    await asyncio.wait([task, called_off], return_when=asyncio.FIRST_COMPLETED)
    called_off.cancel()
    if not task.done():
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return False
    task.result()
    return True
