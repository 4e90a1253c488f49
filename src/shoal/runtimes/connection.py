"""The worker's end of a runtime's socket: frames in, frames out.

It knows messages and their order (`Hello` first), not processes and not what messages mean.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from shoal.errors import ProtocolError
from shoal.wire.frames import FrameReader, frame_of
from shoal.wire.socket import Bye, FromRuntime, Hello, ToRuntime, decode_from_runtime


class Connection(asyncio.BufferedProtocol):
    """A worker's end of the socket.

    Attributes:
        hello: the first message, once it has come.
        closed: done once the connection has ended, however it did.
        garbage: why nothing more can be read from it.
        farewell: the reason in the runtime's `Bye`.
    """

    def __init__(self, on_message: Callable[[FromRuntime], None]) -> None:
        loop = asyncio.get_running_loop()
        self.hello: asyncio.Future[Hello] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()
        self.garbage: str | None = None
        self.farewell: str | None = None
        self._on_message = on_message
        self._reader = FrameReader()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one only by shape

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for frame in self._reader.received(nbytes):
                self._hear(decode_from_runtime(frame))
        except ProtocolError as error:
            self.garbage = f"garbage on the socket: {error}"
            self.close()

    def _hear(self, message: FromRuntime) -> None:
        if self.garbage is not None:
            return
        if isinstance(message, Hello) == self.hello.done():
            raise ProtocolError(
                f"'{type(message).__name__}' where a hello was due, or a second one"
            )
        match message:
            case Hello():
                self.hello.set_result(message)
            case Bye():
                self.farewell = message.reason
            case _:
                self._on_message(message)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)

    @property
    def made(self) -> bool:
        """Whether a runtime has connected yet."""
        return self._transport is not None

    def send(self, message: ToRuntime) -> None:
        """Queue a message without waiting; once the connection has ended this does nothing."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(frame_of(message))

    def close(self) -> None:
        """Drop the connection, and what is still queued on it."""
        if self._transport is not None:
            self._transport.abort()
