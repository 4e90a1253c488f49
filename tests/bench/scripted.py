"""A small HTTP server that answers as it is told, for load generators to drive."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

#: Request body -> the bytes to answer; None closes the connection.
Answers = Callable[[bytes], bytes | None]


class _Scripted(asyncio.Protocol):
    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, found, rest = self._received.partition(b"\r\n\r\n")
        if not found:
            return
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        if len(rest) < length:
            return
        self._received = rest[length:]
        answer = self._answers(rest[:length])
        if answer is None:
            self._transport.abort()
        else:
            self._transport.write(answer)


def http(status: int, body: bytes) -> bytes:
    """A response with a length."""
    return b"HTTP/1.1 %d Said\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body)


@asynccontextmanager
async def serving(answers: Answers) -> AsyncIterator[int]:
    """The port where `answers` are given."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Scripted(answers), "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
