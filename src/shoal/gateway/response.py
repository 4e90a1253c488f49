"""What goes back of an HTTP call: whole, or while it is made.

Decides what a response looks like on the connection. It must not know routes, models or the queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from shoal.gateway.asgi import Send
from shoal.gateway.headers import JSON, Header

#: Pieces of a body are joined up to this size: a write (20 µs) costs more than the copy.
JOIN_MOST_BYTES = 64 * 1024


class Response(msgspec.Struct, frozen=True):
    """What goes back. `body` may come in pieces, sent one after the other."""

    body: bytes | list[bytes]
    status: int = 200
    content_type: bytes = JSON
    headers: tuple[Header, ...] = ()

    @property
    def bytes(self) -> int:
        """Size of the body."""
        return len(self.body) if isinstance(self.body, bytes) else sum(map(len, self.body))

    def with_headers(self, more: tuple[Header, ...]) -> Response:
        """The same response with `more` headers."""
        return msgspec.structs.replace(self, headers=self.headers + more)

    async def send(self, send: Send, more: list[Header]) -> None:
        """Write status, headers (`more` included) and body."""
        pieces = self.body if isinstance(self.body, list) else [self.body]
        size = self.bytes
        if size <= JOIN_MOST_BYTES:
            pieces = [b"".join(pieces)]
        headers = [*self._entity(size), *self.headers, *more]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        for piece in pieces[:-1]:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": pieces[-1]})

    def _entity(self, size: int) -> list[Header]:
        # RFC 9110, 8.6: a 204 has no Content-Length.
        if self.status == 204:
            return []
        return [(b"content-type", self.content_type), (b"content-length", b"%d" % size)]


class EventStream:
    """What goes back while it is made: server-sent events, each of `events` some of them.

    https://html.spec.whatwg.org/multipage/server-sent-events.html
    """

    status = 200
    _HEADERS: tuple[Header, ...] = (
        (b"content-type", b"text/event-stream; charset=utf-8"),
        (b"cache-control", b"no-cache"),
        (b"x-accel-buffering", b"no"),  # nginx would gather what comes
    )

    def __init__(self, events: AsyncGenerator[bytes]) -> None:
        self._events = events

    async def send(self, send: Send, more: list[Header]) -> None:
        """Write status, headers (`more` included) and what comes, as fast as it is taken."""
        async with aclosing(self._events) as events:
            headers = [*self._HEADERS, *more]
            await send({"type": "http.response.start", "status": self.status, "headers": headers})
            async for piece in events:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
