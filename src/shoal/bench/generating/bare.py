"""An SGLang server that is asked over HTTP, with no runtime before it: what `sglang` sides are held against."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from functools import partial

from shoal.errors import ShoalError
from shoal.runtimes.sglang.answers import Text
from shoal.runtimes.sglang.client import Client
from shoal.runtimes.sglang.sampling import Able, params_of
from shoal.wire.arrays import from_wire
from shoal.wire.socket import CancelBatch, Failed, FromRuntime, Generate, Generated

_ABLE = Able("none", untempered=False, generated_repetition=False)


class Bare:
    """It is sent and says what a runtime would."""

    def __init__(self, url: str) -> None:
        self.client = Client(url, None)
        self._heard: asyncio.Queue[FromRuntime] = asyncio.Queue()
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def send(self, asked: Generate | CancelBatch) -> None:
        """A request of its own, at once; or its end."""
        batch = asked.batch
        if isinstance(asked, Generate):
            task = self._tasks[batch] = asyncio.create_task(self._carry(asked))
            task.add_done_callback(partial(self._done, batch))
        elif batch in self._tasks:
            self._tasks[batch].cancel()
            self._heard.put_nowait(Generated(batch, "cancelled", 0, 0.0))

    def _done(self, batch: int, task: asyncio.Task[None]) -> None:
        """The next request may have its number already."""
        if self._tasks.get(batch) is task:
            del self._tasks[batch]

    async def hear(self) -> FromRuntime:
        """What comes next, of whichever."""
        return await self._heard.get()

    async def _carry(self, asked: Generate) -> None:
        text, began = Text(asked.batch, asked.sampling), time.perf_counter()
        body = {
            "input_ids": from_wire(asked.tokens).tolist(),
            "sampling_params": params_of(asked.sampling, _ABLE),
        }
        try:
            async for answer in self.client.stream(body):
                if (failure := answer.failure()) is not None:
                    raise failure
                more = text.more(answer)
                if more.chunk is not None:
                    self._heard.put_nowait(more.chunk)
                if more.finish is not None:
                    seconds = time.perf_counter() - began
                    over = Generated(asked.batch, more.finish, text.new_tokens, seconds)
                    self._heard.put_nowait(over)
        except ShoalError as error:
            self._heard.put_nowait(Failed(error.code, error.message, asked.batch))


@contextlib.asynccontextmanager
async def bare(url: str) -> AsyncIterator[Bare]:
    """Drop its connections at the end."""
    one = Bare(url)
    try:
        yield one
    finally:
        await one.client.close()
