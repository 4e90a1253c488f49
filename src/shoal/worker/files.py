"""What blocks on a model's files: threads that fetch them, each within its time, and foreign errors.

A thread that is late cannot be ended. It is left behind, and its turn goes to the next model; who asks
for the same model again waits for that very thread, so at most one a model is left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import ParamSpec, TypeVar

from shoal.errors import ModelLoadFailed, ShoalError, reason
from shoal.telemetry import log

_log = log.get(__name__)

#: Models that are fetched at a time; a few keep a slow one from holding up the others.
FETCHES = 4

P = ParamSpec("P")
T = TypeVar("T")


class Fetches:
    """Models whose files are on the way to one worker."""

    def __init__(self) -> None:
        self._turn = asyncio.Semaphore(FETCHES)
        self._threads: dict[str, Future[int]] = {}

    async def run(self, model: str, fetch: Callable[[], int], limit_s: float) -> int:
        """What `fetch` returns, in a thread, once it is this model's turn: waiting for that is no
        part of the time.

        Raises:
            TimeoutError: it took longer than `limit_s`.
            ShoalError: it failed.
        """
        async with self._turn, asyncio.timeout(limit_s):
            thread = self._threads.get(model)
            if thread is None:
                thread = self._threads[model] = _in_thread(fetch)
            try:
                return await asyncio.wrap_future(thread)
            finally:
                if thread.done():
                    self._threads.pop(model, None)


def _in_thread(work: Callable[[], T]) -> Future[T]:
    """The outcome of `work` in a thread that no end of the process waits for."""
    outcome: Future[T] = Future()
    outcome.set_running_or_notify_cancel()  # from now on nobody who stops waiting can cancel it

    def run() -> None:
        try:
            outcome.set_result(guarded(work))
        except ShoalError as error:
            outcome.set_exception(error)

    Thread(target=run, name="fetch", daemon=True).start()
    return outcome


def guarded(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """`work`, of which whatever a library raises at a model's files fails that model alone.

    Raises:
        ShoalError: its own; `ModelLoadFailed` for any other.
    """
    try:
        return work(*args, **kwargs)
    except ShoalError:
        raise
    except BaseException as error:  # a panic of a tokenizer's Rust code is no Exception
        _log.event("files_unusable", level="error", error=error)
        told = f"{type(error).__name__}: {reason(error)}"
        raise ModelLoadFailed(f"its files cannot be used: {told}") from error
