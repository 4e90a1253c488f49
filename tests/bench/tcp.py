"""A TCP server for tests that leaves no connection behind."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

Handle = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def serving(handle: Handle) -> AsyncIterator[int]:
    """The port of a server that handles each connection, then resets it."""
    writers: list[asyncio.StreamWriter] = []

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        with contextlib.suppress(ConnectionError):
            await handle(reader, writer)
        writer.transport.abort()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()
    for writer in writers:
        writer.transport.abort()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
