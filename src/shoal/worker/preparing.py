"""Decodes and tokenizes units in one thread of its own, many at a time, off the event loop.

Whatever waits when the thread gets to it is done in one go and reported in one wake-up of the
loop, so that short texts do not pay a thread switch each.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable

from shoal.errors import ComputeFailed, ShoalError
from shoal.tasks import encode
from shoal.wire.queue import Unit
from shoal.worker.text import Prepared, Preparer

Outcome = list[Prepared | ShoalError]
#: Of each unit: its id, the outcomes of its items, when it was ready.
OnPrepared = Callable[[list[tuple[str, Outcome, float]]], None]


class Preparing:
    """The preparing thread. `on_prepared` is called on the event loop."""

    def __init__(self, on_prepared: OnPrepared) -> None:
        self._on_prepared = on_prepared
        self._loop = asyncio.get_running_loop()
        self._work: deque[tuple[Unit, Preparer]] = deque()
        self._wake = threading.Event()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="prepare", daemon=True)
        self._thread.start()

    def submit(self, unit: Unit, preparer: Preparer) -> None:
        """Prepare this unit as soon as the thread is free."""
        self._work.append((unit, preparer))
        self._wake.set()

    def stop(self) -> None:
        """End the thread; what it has not done is never reported."""
        self._stopped = True
        self._wake.set()
        self._thread.join(timeout=5.0)

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            if self._stopped:
                return
            done = []
            while self._work:
                unit, preparer = self._work.popleft()
                done.append((unit.id, prepare(unit, preparer), time.monotonic()))
                if len(done) >= 64:
                    self._report(done)
                    done = []
            self._report(done)

    def _report(self, done: list[tuple[str, Outcome, float]]) -> None:
        if done and not self._stopped:
            self._loop.call_soon_threadsafe(self._on_prepared, done)


def prepare(unit: Unit, preparer: Preparer) -> Outcome:
    """Each item's token ids, or its own error; never raises."""
    read: list[str | list[int] | ShoalError] = []
    for raw in unit.items:
        try:
            read.append(encode.read_item(raw, unit.encoding))
        except ShoalError as error:
            read.append(error)
    good = [item for item in read if not isinstance(item, ShoalError)]
    try:
        outcomes = iter(preparer.prepare(good, unit.params))
    except BaseException as error:
        # A tokenizer may raise anything, and a panic of its Rust code is no Exception. Only this
        # unit is at fault, and the thread must live: without it no other would be prepared.
        failure = ComputeFailed(f"this item could not be tokenized: {error}")
        return [item if isinstance(item, ShoalError) else failure for item in read]
    return [item if isinstance(item, ShoalError) else next(outcomes) for item in read]
