"""The runtime as a worker meets it: a process behind a socket, which ends where its server has."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest

from shoal.runtimes.link import RuntimeProcess
from shoal.runtimes.spec import RuntimeSpec
from shoal.wire.arrays import from_wire, to_wire
from shoal.wire.codec import Message
from shoal.wire.socket import Chunk, FromRuntime, Generate, Generated, Loaded, Sampling
from tests.runtimes.sglang.running import (
    DEADLINE_S,
    MODEL,
    PROMPT,
    SCRIPT,
    fake,
    folder_of,
    load_of,
    servers_of,
)

M = TypeVar("M", bound=Message)


class Heard:
    """A process, and what came of it."""

    def __init__(self) -> None:
        self.messages: asyncio.Queue[FromRuntime] = asyncio.Queue()
        self.exits: asyncio.Queue[tuple[int, str]] = asyncio.Queue()
        self.process = RuntimeProcess(
            RuntimeSpec("sglang"),
            self.messages.put_nowait,
            lambda status, why: self.exits.put_nowait((status, why)),
        )

    async def until(self, kind: type[M]) -> M:
        """The next message of a kind."""
        async with asyncio.timeout(DEADLINE_S):
            while not isinstance(message := await self.messages.get(), kind):
                pass
        return message

    async def exit(self) -> tuple[int, str]:
        async with asyncio.timeout(DEADLINE_S):
            return await self.exits.get()


def _long(batch: int) -> Generate:
    tokens = to_wire(np.array(PROMPT, np.int32))
    return Generate(batch, MODEL, tokens, Sampling(200, temperature=0.0))


async def test_texts_through_the_socket(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    with fake(folder) as server:
        heard = Heard()
        hello = await heard.process.start()
        assert hello.capabilities.batching == "self"
        heard.process.send(load_of(folder, url=server.url))
        assert (await heard.until(Loaded)).bytes == 3 << 28
        heard.process.send(_long(1))
        told, over = 0, None
        while over is None:
            message = await heard.messages.get()
            if isinstance(message, Chunk):
                told += len(from_wire(message.tokens))
            else:
                assert isinstance(message, Generated)
                over = message
        assert told == over.new_tokens == 200
        await heard.process.stop()


@pytest.mark.parametrize("under_way", [True, False])
async def test_a_server_that_dies_ends_the_process(tmp_path: Path, under_way: bool) -> None:
    folder = folder_of(tmp_path)
    with fake(folder) as server:
        heard = Heard()
        await heard.process.start()
        heard.process.send(load_of(folder, url=server.url))
        await heard.until(Loaded)
        if under_way:
            heard.process.send(_long(1))
            await heard.until(Chunk)
        server.end()
        status, why = await heard.exit()
    assert status == 1
    assert f"nothing answers at {server.url}" in why.splitlines()[-1]


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
async def test_a_server_ends_with_the_process_that_started_it(
    tmp_path: Path, end: signal.Signals
) -> None:
    folder = folder_of(tmp_path)
    heard = Heard()
    await heard.process.start()
    heard.process.send(load_of(folder, command=[sys.executable, str(SCRIPT)]))
    await heard.until(Loaded)
    assert len(servers_of(folder)) == 1
    os.kill(heard.process.pid, end)
    await heard.exit()
    await _until(lambda: not servers_of(folder))


async def _until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not true():
            await asyncio.sleep(0.01)
