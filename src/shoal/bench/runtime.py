"""One runtime process without a worker: a message in, its answer out. Knows no model."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import TypeVar

from shoal.bench.failure import BenchFailed
from shoal.runtimes.link import RuntimeProcess
from shoal.runtimes.spec import RuntimeSpec
from shoal.wire.codec import Message
from shoal.wire.socket import Bye, FromRuntime, ToRuntime

M = TypeVar("M", bound=Message)


class Alone:
    """A runtime process that is asked one thing at a time, or is listened to."""

    def __init__(self, spec: RuntimeSpec) -> None:
        self._heard: asyncio.Queue[FromRuntime] = asyncio.Queue()
        self.process = RuntimeProcess(spec, self._heard.put_nowait, self._ended)

    def send(self, message: ToRuntime) -> None:
        """Queue a message."""
        self.process.send(message)

    async def ask(self, message: ToRuntime, answer: type[M]) -> M:
        """Raises `BenchFailed` for any other answer."""
        self.send(message)
        heard = await self.hear()
        if not isinstance(heard, answer):
            raise BenchFailed(f"the runtime answered {type(message).__name__} with {heard}")
        return heard

    async def hear(self) -> FromRuntime:
        """What it says next."""
        return await self._heard.get()

    def _ended(self, status: int, last: str) -> None:
        self._heard.put_nowait(Bye(f"exit status {status}: {last}"))


@contextlib.asynccontextmanager
async def alone(kind: str, threads: int = 1) -> AsyncIterator[Alone]:
    """Start a runtime of this kind on so many CPU threads; end it."""
    one = Alone(RuntimeSpec(kind, threads=threads))
    await one.process.start()
    try:
        yield one
    finally:
        await one.process.stop()
