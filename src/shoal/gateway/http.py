"""One HTTP call as values: `Request` in, `Response` out, on top of raw ASGI messages.

Decides how a body is collected and bounded, and what a response looks like on the connection.
It must not know routes, models or the queue.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from contextlib import aclosing
from typing import Any
from urllib.parse import parse_qs

import msgspec

from shoal.errors import (
    DeadlineExceeded,
    ErrorInfo,
    Overloaded,
    PayloadTooLarge,
    RequestCancelled,
    UnsupportedMediaType,
)
from shoal.gateway.headers import (
    JSON,
    MSGPACK_TYPES,
    Header,
    accepts_msgpack,
    by_name,
    media_type,
)
from shoal.gateway.unread import Connection
from shoal.telemetry.trace import Trace
from shoal.wire.codec import Buffer
from shoal.wire.memory import unwritten
from shoal.wire.queue import Timings

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

#: A refused body of a declared size up to this multiple of the limit is read and thrown away, so
#: that the connection survives; a larger one is not worth it and the connection ends.
DRAIN_MOST = 4
#: Pieces of a body are joined up to this size: a write (20 µs) costs more than the copy.
JOIN_MOST_BYTES = 64 * 1024
#: Bodies that are read on in one turn of the event loop, each by a read of the socket (256 KiB):
#: copying one takes up to 1 ms, and whoever else asks waits for all of them.
READS_A_TURN = 4
#: The ASGI extension in which the server gives the `connection` itself, an `unread.Connection`.
CONNECTION = "shoal.connection"
#: What is left of a deadline that passed while the body came in.
LEAST_LEFT_S = 0.001


class BodyBudget:
    """Memory and turns for the bodies of all requests of a gateway together."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self.held_bytes = 0
        self._reads = 0  # in this turn of the loop
        self._waiting: deque[asyncio.Future[None]] = deque()

    def take(self, count: int) -> None:
        """Count these bytes. Raises `Overloaded` where they are too many."""
        if self.held_bytes + count > self._most:
            raise Overloaded(
                f"the bodies of requests in flight take {self.held_bytes} bytes, and together they may "
                f"take {self._most} (max_bodies_bytes): try again",
                retry_after_s=1.0,
            )
        self.held_bytes += count

    def give(self, count: int) -> None:
        """These bytes are no longer held."""
        self.held_bytes -= count

    async def turn(self) -> None:
        """Return when more of a body may be read: first come, first served, a few at a time."""
        loop = asyncio.get_running_loop()
        if not self._reads:
            loop.call_soon(self._next_turn)
        if self._reads < READS_A_TURN:
            self._reads += 1
        else:
            self._waiting.append(future := loop.create_future())
            await future

    def _next_turn(self) -> None:
        self._reads = 0
        while self._waiting and self._reads < READS_A_TURN:
            future = self._waiting.popleft()
            if not future.done():  # its caller is gone
                future.set_result(None)
                self._reads += 1
        if self._reads:
            asyncio.get_running_loop().call_soon(self._next_turn)


class Request:
    """One call.

    Attributes:
        id: echoed to the caller; `key` is unique over all gateways.
        complete: the body was read to the end.
        connection: that it came on, where the server tells.
        held_bytes: of its body, taken from the gateway's `BodyBudget`; `kept`: not given back with
            the answer, as an upload still views it.
        timeout_s: counted from `started`.
        key_name: of the API key it came with; empty without one.
        user: whom the caller names as its own; from `X-User`, or filled in by the route.
        trace: this call's own span; `caller` is the span it came from.
        model, items, timings: filled in by the route, for logs and headers.
        failure: why its answer ended early, once that had begun.
    """

    __slots__ = (
        "caller",
        "complete",
        "connection",
        "failure",
        "headers",
        "held_bytes",
        "id",
        "items",
        "kept",
        "key",
        "key_name",
        "method",
        "model",
        "path",
        "query_string",
        "receive",
        "started",
        "timeout_s",
        "timings",
        "trace",
        "user",
    )

    def __init__(self, scope: Scope, receive: Receive, started: float) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.query_string: bytes = scope.get("query_string", b"")
        self.headers = by_name(scope["headers"])
        self.receive = receive
        extension = scope.get("extensions", {}).get(CONNECTION, {})
        self.connection: Connection | None = extension.get("connection")
        self.started = started
        self.id = self.key = self.key_name = ""
        self.user = self.headers.get(b"x-user", b"")
        self.model = ""
        self.items = 0
        self.timeout_s = 0.0
        self.timings: Timings | None = None
        self.failure: ErrorInfo | None = None
        self.complete = False
        self.held_bytes = 0
        self.kept = False
        self.caller: Trace | None = None
        self.trace: Trace

    def text_header(self, name: bytes) -> str:
        """A header's value, or an empty string."""
        return self.headers.get(name, b"").decode("latin-1")

    def query(self, name: str) -> str | None:
        """The last value of a field of the query string; None without one."""
        fields = parse_qs(self.query_string.decode("latin-1"), keep_blank_values=True)
        return fields[name][-1] if name in fields else None

    @property
    def wants_msgpack(self) -> bool:
        """Whether the answer goes out as MessagePack: `Accept` decides, else what was sent."""
        sent = media_type(self.headers.get(b"content-type", JSON)) in MSGPACK_TYPES
        return accepts_msgpack(self.headers.get(b"accept", b""), sent)

    def left_s(self, now: float) -> float:
        """Seconds until the deadline; a little, never none, once it has passed."""
        return max(LEAST_LEFT_S, self.started + self.timeout_s - now)

    def keep(self) -> None:
        """The body is viewed beyond the answer; whoever does so lets it go."""
        self.kept = True

    def let_go(self, budget: BodyBudget) -> None:
        """Nothing holds the body any more: its bytes go back to `budget`, once."""
        budget.give(self.held_bytes)
        self.held_bytes = 0

    def when_gone(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the client has closed the connection, where the server tells."""
        if self.connection is not None:
            self.connection.when_lost(callback)

    async def body(self, limit_bytes: int, within_s: float, budget: BodyBudget) -> Buffer:
        """The whole body; its bytes are taken from `budget` as they come.

        Raises:
            Overloaded: the bodies of all requests take too much memory already.
            PayloadTooLarge: it is larger than `limit_bytes`; nothing more is read.
            UnsupportedMediaType: it is compressed.
            DeadlineExceeded: it did not arrive `within_s`.
            RequestCancelled: the client closed the connection before the end.
        """
        coding = self.headers.get(b"content-encoding", b"identity")
        if coding.lower() != b"identity":
            raise UnsupportedMediaType(
                f"Content-Encoding '{coding.decode('latin-1')}' is not taken: send the body as it is",
                param="Content-Encoding",
            )
        if self._declared_bytes() > limit_bytes:
            raise _too_large(limit_bytes)
        if self.connection is not None and self.connection.all_read:
            return await self._collect(limit_bytes, budget)  # most are; a timer costs 5 µs
        try:
            async with asyncio.timeout(within_s):
                return await self._collect(limit_bytes, budget)
        except TimeoutError:
            raise DeadlineExceeded(f"the body did not arrive within {within_s:g} s") from None

    async def _collect(self, limit_bytes: int, budget: BodyBudget) -> Buffer:
        # Written in place as it comes: joining 64 MB in one go would block for 28 ms, and hold it
        # twice. A body of no declared size grows.
        whole: memoryview | bytearray | None = None
        size = 0
        while True:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise RequestCancelled("the client closed the connection while sending")
            chunk: bytes = message.get("body", b"")
            start, size = size, size + len(chunk)
            if size > limit_bytes:
                raise _too_large(limit_bytes)
            budget.take(len(chunk))
            self.held_bytes += len(chunk)
            self.complete = not message.get("more_body")
            if self.complete and not start:
                return chunk
            if whole is None:
                declared = self._declared_bytes()
                whole = unwritten(declared) if declared else bytearray()
            whole[start:size] = chunk
            if self.complete:
                return whole
            await budget.turn()

    def _declared_bytes(self) -> int:
        declared = self.headers.get(b"content-length", b"0")
        return int(declared) if declared.isdigit() else 0

    def hopeless(self, limit_bytes: int) -> bool:
        """Whether the rest of a refused body is too large to read on for the connection's sake."""
        return self._declared_bytes() > DRAIN_MOST * limit_bytes


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


def _too_large(limit_bytes: int) -> PayloadTooLarge:
    return PayloadTooLarge(
        f"the body is larger than {limit_bytes} bytes, the limit of this gateway: "
        f"send fewer items in one request, or raise max_body_bytes"
    )
