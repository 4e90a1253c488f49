"""A TCP proxy that stands for a network: it delays, cuts, and goes silent.

Processes are told apart by the name a NATS client gives in its first line, so that a worker can be
cut off while the gateway beside it goes on. It must not know why a link is harmed.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import struct

_NAME = re.compile(rb'"name": ?"([^"]*)"')
# `struct linger`: on, no seconds; a close is then a reset.
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_CHUNK = 64 * 1024
#: Between two writes that wait, since timers of one moment ring in any order.
_TICK_S = 1e-6


class _Link:
    """One client's connection and the one to the server behind it."""

    def __init__(self, ends: tuple[asyncio.StreamWriter, asyncio.StreamWriter]) -> None:
        self._ends = ends
        self.name = ""
        self.silent = False

    def reset(self) -> None:
        for end in self._ends:
            with contextlib.suppress(OSError):  # closed already
                end.get_extra_info("socket").setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE
                )
            end.transport.abort()

    async def closed(self) -> None:
        self.reset()
        for end in self._ends:
            with contextlib.suppress(OSError):
                await end.wait_closed()


class Proxy:
    """Listens on a port of its own for the server at `port` of this machine."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._links: set[_Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._cut: set[str] = set()
        self._server: asyncio.Server | None = None
        self.delay_s = 0.0
        self.port = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._server.wait_closed()

    def cut(self, role: str) -> None:
        """Reset the connections of clients whose name holds `role`, and refuse them until `heal`."""
        self._cut.add(role)
        for link in list(self._links):
            if role in link.name:
                link.reset()

    def silence(self, role: str) -> None:
        """Swallow what the present connections of `role` send and get: both ends believe in them."""
        for link in self._links:
            link.silent |= role in link.name

    def heal(self) -> None:
        """Take new connections and pass them on at once; silent ones stay so."""
        self._cut.clear()
        self.delay_s = 0.0

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            back_reader, back = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        link = _Link((writer, back))
        self._links.add(link)
        try:
            await asyncio.gather(
                self._pump(reader, back, link, named=True), self._pump(back_reader, writer, link)
            )
        finally:
            self._links.discard(link)
            await link.closed()

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        link: _Link,
        *,
        named: bool = False,
    ) -> None:
        """`named`: this direction brings the client's name."""
        due = 0.0
        with contextlib.suppress(OSError):
            while data := await reader.read(_CHUNK):
                if named and not link.name and (found := _NAME.search(data)):
                    link.name = found[1].decode()
                if any(role in link.name for role in self._cut):
                    break
                if not link.silent:
                    due = self._send(writer, data, due)
                    await writer.drain()
        link.reset()

    def _send(self, writer: asyncio.StreamWriter, data: bytes, after: float) -> float:
        """Send when the delay is over, never before what was sent `after`; returns when."""
        loop = asyncio.get_running_loop()
        due = max(loop.time() + self.delay_s, after + _TICK_S)
        if due <= loop.time():
            writer.write(data)
        else:
            loop.call_at(due, writer.write, data)
        return due
