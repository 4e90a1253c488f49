"""Decodes and tokenizes units off the event loop: small ones in one thread, large ones in another.

What lies in the payload store is fetched first. Whatever waits when the thread of the small ones
gets to it is done in one go and reported in one wake-up of the loop, so that short texts do not pay
a thread switch each. No small unit waits for a large one: tokenizing lets the other thread run, and
decoding a text of 5 MB takes about 3 ms. An image is large however few its bytes: a WebP of some
kilobytes may hold 50 million pixels, a second's work.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue

from shoal.errors import ComputeFailed, InvalidItem, ShoalError
from shoal.tasks import encode
from shoal.tasks.generate.conversation import read_conversation
from shoal.values import Encoding, GenerateParams, ScoreParams
from shoal.wire.codec import Buffer
from shoal.wire.queue import Unit
from shoal.worker.payloads import Contents, Fetching
from shoal.worker.prepared import Prepared, Preparer

Outcome = list[Prepared | ShoalError]
#: Of each unit, as it was submitted: the outcomes of its items, when it was ready.
OnPrepared = Callable[[list[tuple[Unit, Outcome, float]]], None]


#: Units of more bytes are large. The gateway cuts units of small items at as many.
LARGE_BYTES = 64 * 1024


#: Most small units in one report.
REPORT_UNITS = 64


class Preparing:
    """The preparing threads. `on_prepared` is called on the event loop."""

    def __init__(self, on_prepared: OnPrepared, fetching: Fetching) -> None:
        loop = asyncio.get_running_loop()
        self._fetching = fetching
        self._small = _Thread("prepare", loop, on_prepared, REPORT_UNITS)
        self._large = _Thread("prepare-large", loop, on_prepared, 1)

    def submit(self, unit: Unit, preparer: Preparer, read_bytes: int) -> None:
        """Prepare this unit as soon as all of it is here and its thread is free.

        `read_bytes`: what is read for it, as `tasks.reading` counts.
        """
        thread = self._large if preparer.slow or read_bytes > LARGE_BYTES else self._small
        self._fetching.fetch(unit, lambda contents: thread.submit(unit, contents, preparer))

    def release(self, unit: str) -> None:
        """The unit is answered or gone: nothing is fetched or held for it any more."""
        self._fetching.release(unit)

    def stop(self) -> None:
        """End the threads; what they have not done is never reported."""
        self._small.stop()
        self._large.stop()


class _Thread:
    def __init__(
        self,
        name: str,
        loop: asyncio.AbstractEventLoop,
        on_prepared: OnPrepared,
        report_units: int,
    ) -> None:
        self._on_prepared = on_prepared
        self._report_units = report_units
        self._loop = loop
        self._stopped = False
        self._work: SimpleQueue[tuple[Unit, Contents, Preparer] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, unit: Unit, contents: Contents, preparer: Preparer) -> None:
        self._work.put((unit, contents, preparer))

    def stop(self) -> None:
        self._stopped = True
        self._work.put(None)
        self._thread.join(timeout=5.0)

    def _run(self) -> None:
        done: list[tuple[Unit, Outcome, float]] = []
        while (work := self._work.get()) is not None and not self._stopped:
            unit, contents, preparer = work
            done.append((unit, prepare(unit, contents, preparer), time.monotonic()))
            del work, unit, contents  # lets go of the bytes, also while nothing else comes
            if self._work.empty() or len(done) >= self._report_units:
                self._report(done)
                done = []

    def _report(self, done: list[tuple[Unit, Outcome, float]]) -> None:
        if not self._stopped:
            self._loop.call_soon_threadsafe(self._on_prepared, done)


def prepare(unit: Unit, contents: Contents, preparer: Preparer) -> Outcome:
    """Each item ready for a batch, or its own error; never raises."""
    chat = isinstance(unit.params, GenerateParams) and unit.params.chat
    read = [_read(content, unit.encoding, chat=chat) for content in contents]
    query = _query_of(unit)
    if isinstance(query, ShoalError):
        return [InvalidItem(f"the query: {query.message}", param="query")] * len(read)
    good = [item for item in read if not isinstance(item, ShoalError)]
    try:
        outcomes = iter(preparer.prepare(good, unit.params, query))
        own: Outcome = [item if isinstance(item, ShoalError) else next(outcomes) for item in read]
    except ShoalError as error:  # what was asked of all of them cannot be done
        return [item if isinstance(item, ShoalError) else error for item in read]
    except BaseException as error:
        # A tokenizer may raise anything, and a panic of its Rust code is no Exception. Only this
        # unit is at fault, and the thread must live: without it no other would be prepared.
        failure = ComputeFailed(f"this item could not be tokenized: {error}")
        return [item if isinstance(item, ShoalError) else failure for item in read]
    return [*own, *outcomes]  # and the query, where it is a sequence of its own


def _query_of(unit: Unit) -> encode.Item | ShoalError | None:
    if not isinstance(unit.params, ScoreParams):
        return None
    return _read(unit.params.query, unit.encoding)


def _read(
    content: Buffer | ShoalError, encoding: Encoding, *, chat: bool = False
) -> encode.Item | ShoalError:
    if isinstance(content, ShoalError):
        return content
    try:
        return (read_conversation if chat else encode.read_item)(content, encoding)
    except ShoalError as error:
        return error
