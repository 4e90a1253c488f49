"""A response in one write: uvicorn writes its headers and its body apart, a system call each.

With short answers those two calls were a quarter of the gateway's work. Everything written in one
turn of the event loop goes out together at its end.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class OneWriteTransport:
    """A transport that gathers what is written until the end of the loop's turn.

    `written`: bytes so far, those that nobody took yet included.
    """

    __slots__ = ("_call_soon", "_held", "_transport", "written")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._call_soon = loop.call_soon
        self._held: list[bytes] = []
        self.written = 0

    def write(self, data: bytes) -> None:
        self.written += len(data)
        self._held.append(data)
        if len(self._held) == 1:
            self._call_soon(self._flush)

    def _flush(self) -> None:
        held, self._held = self._held, []
        if held and not self._transport.is_closing():
            self._transport.writelines(held)

    def close(self) -> None:
        """Close once what was written has been sent."""
        self._flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class OneWriteProtocol(HttpToolsProtocol):
    """uvicorn's HTTP/1.1 protocol over such a transport."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.gathering = OneWriteTransport(transport, self.loop)
        super().connection_made(self.gathering)  # type: ignore[arg-type]
