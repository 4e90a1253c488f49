"""One HTTP call that came in: what its headers say, and its body.

Decides how a body is collected and bounded. It must not know routes, models or the queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from urllib.parse import parse_qs

from shoal.errors import (
    DeadlineExceeded,
    ErrorInfo,
    PayloadTooLarge,
    RequestCancelled,
    UnsupportedMediaType,
)
from shoal.gateway.asgi import CONNECTION, Receive, Scope
from shoal.gateway.budget import BodyBudget
from shoal.gateway.headers import JSON, MSGPACK_TYPES, accepts_msgpack, by_name, media_type
from shoal.gateway.unread import Connection
from shoal.telemetry.trace import Trace
from shoal.wire.codec import Buffer
from shoal.wire.memory import unwritten
from shoal.wire.queue import Timings

#: A refused body of a declared size up to this multiple of the limit is read and thrown away, so
#: that the connection survives; a larger one is not worth it and the connection ends.
DRAIN_MOST = 4
#: What is left of a deadline that passed while the body came in.
LEAST_LEFT_S = 0.001


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


def _too_large(limit_bytes: int) -> PayloadTooLarge:
    return PayloadTooLarge(
        f"the body is larger than {limit_bytes} bytes, the limit of this gateway: "
        f"send fewer items in one request, or raise max_body_bytes"
    )
