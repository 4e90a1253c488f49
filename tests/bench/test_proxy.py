import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from shoal.bench.proxy import Proxy

from .tcp import serving

HELLO = b'CONNECT {"name": "shoal-%s"}\r\n'


@pytest.fixture
async def proxy() -> AsyncIterator[Proxy]:
    """In front of a server that sends everything back."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(4096):
            writer.write(data)

    async with serving(echo) as port:
        made = Proxy(port)
        await made.start()
        yield made
        await made.close()


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def says(self, data: bytes, within_s: float = 30.0) -> bytes:
        """What comes back; nothing if the connection ends."""
        self._writer.write(data)
        return await asyncio.wait_for(self._reader.read(4096), within_s)

    async def close(self) -> None:
        self._writer.transport.abort()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()


async def client(proxy: Proxy, role: bytes) -> Client:
    made = Client(*await asyncio.open_connection("127.0.0.1", proxy.port))
    assert await made.says(HELLO % role) == HELLO % role
    return made


async def test_it_passes_on_in_order_after_a_delay(proxy: Proxy) -> None:
    one = await client(proxy, b"worker")
    proxy.delay_s = 0.05
    began = asyncio.get_running_loop().time()
    assert await one.says(b"a") == b"a"
    assert asyncio.get_running_loop().time() - began >= 0.1
    proxy.heal()
    assert await one.says(b"b") == b"b"
    await one.close()


async def test_only_the_role_that_is_meant_is_cut_off_until_it_is_healed(proxy: Proxy) -> None:
    worker, gateway = await client(proxy, b"worker"), await client(proxy, b"gateway")
    proxy.cut("worker")
    assert await gateway.says(b"x") == b"x"
    with pytest.raises(ConnectionError):
        await worker.says(b"x")
    refused = Client(*await asyncio.open_connection("127.0.0.1", proxy.port))
    with pytest.raises(ConnectionError):
        await refused.says(HELLO % b"worker")
    proxy.heal()
    again = await client(proxy, b"worker")
    for one in (worker, gateway, refused, again):
        await one.close()


async def test_a_silent_connection_looks_alive_and_new_ones_work(proxy: Proxy) -> None:
    old = await client(proxy, b"worker")
    proxy.silence("worker")
    with pytest.raises(TimeoutError):
        await old.says(b"x", within_s=0.2)
    proxy.heal()
    with pytest.raises(TimeoutError):
        await old.says(b"x", within_s=0.2)
    new = await client(proxy, b"worker")
    assert await new.says(b"y") == b"y"
    await old.close()
    await new.close()
