"""Finishes units whose answers take longer to make than the event loop can wait.

One thread: what is made there is mostly Python, and of two only one would run at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from shoal.telemetry.background import background
from shoal.worker.stash import Stash


class Finishing:
    """Calls `on_finished` on the event loop for each unit that was submitted."""

    def __init__(self, on_finished: Callable[[Stash], None]) -> None:
        self._on_finished = on_finished
        self._thread = ThreadPoolExecutor(1, "finish")  # started when there is work
        self._under_way: dict[Stash, asyncio.Task[None]] = {}

    def submit(self, stash: Stash) -> None:
        """Finish this unit, unless that is under way."""
        if stash not in self._under_way:
            self._under_way[stash] = background(self._finish(stash))

    async def _finish(self, stash: Stash) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, stash.finish)
        finally:
            del self._under_way[stash]
        self._on_finished(stash)

    def stop(self) -> None:
        """Let go of the thread; what it has not done is never reported."""
        for task in self._under_way.values():
            task.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)
