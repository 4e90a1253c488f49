"""The ASGI application: one call in, one response out, with everything all routes share.

Decides ids, errors, headers and what is logged and counted of a call. It must not know what any
route does.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Awaitable, Callable

from shoal.errors import (
    DeadlineExceeded,
    MethodNotAllowed,
    ShoalError,
    ShuttingDown,
    Unauthorized,
)
from shoal.gateway.access import Access
from shoal.gateway.asgi import Receive, Scope, Send
from shoal.gateway.envelope import Envelope, error_response, native
from shoal.gateway.headers import Header
from shoal.gateway.request import Request
from shoal.gateway.response import JOIN_MOST_BYTES, EventStream, Response
from shoal.gateway.router import Route, Router
from shoal.gateway.routes import routes
from shoal.gateway.service import Gateway
from shoal.settings import GatewaySettings
from shoal.telemetry import log
from shoal.telemetry.trace import begin, parse

#: A caller's id is echoed and logged if it looks like one; a header value may hold anything else.
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:@/+=-]{1,128}\Z")

_log = log.get(__name__)

Open = Callable[[], Awaitable[Gateway]]


class App:
    """Raw ASGI. The gateway opens at the server's startup and closes at its shutdown."""

    def __init__(self, settings: GatewaySettings, open_: Open) -> None:
        self._settings = settings
        self._open = open_
        self._access = Access(settings)
        self._gateway: Gateway | None = None
        self._router = Router([])
        self._calls = 0
        self.failure: ShoalError | None = None

    @property
    def gateway(self) -> Gateway:
        """The open gateway; only between startup and shutdown."""
        assert self._gateway is not None, "the app has not started"
        return self._gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One ASGI connection scope."""
        match scope["type"]:
            case "http":
                await self._call(scope, receive, send)
            case "lifespan":
                await self._lifespan(receive, send)
            case _:
                await send({"type": "websocket.close", "code": 1000})

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            self._gateway = await self._open()
        except ShoalError as error:
            self.failure = error  # whoever runs the server says it
            await send({"type": "lifespan.startup.failed", "message": ""})
            return
        self._router = Router(routes(self._gateway))
        await send({"type": "lifespan.startup.complete"})
        with contextlib.suppress(asyncio.CancelledError):  # the process ends without waiting
            await receive()
            await self._gateway.close()
            await send({"type": "lifespan.shutdown.complete"})

    # --- one call ---------------------------------------------------------------------------------

    async def _call(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, time.perf_counter())
        self._identify(request)
        route: Route | None = None
        response: Response | EventStream
        try:
            route, rest = self._router.find(request.path)
            response = await self._respond(route, rest, request)
            if isinstance(response, EventStream):
                await self._stream(route, request, response, send)
                return
        except ShoalError as error:
            response = self._error(error, route, request)
        except asyncio.CancelledError:  # by the server, at its end: the body did not come in time
            response = self._error(ShuttingDown(), route, request)
        except Exception as error:  # the edge: a bug answers 500 and is logged, the process lives
            _log.event("request_crashed", level="error", error=error, id=request.id)
            failure = ShoalError(f"an internal error; the log has it under request id {request.id}")
            response = self._error(failure, route, request)
        finally:
            if not request.kept:
                request.let_go(self.gateway.bodies)
        seconds = time.perf_counter() - request.started
        self._record(route, request, response.status, seconds)
        await self._send(request, response, send, self._headers(request, seconds))

    async def _stream(
        self, route: Route, request: Request, response: EventStream, send: Send
    ) -> None:
        """Send what comes; the call is told of at its end, as what became of it then."""
        try:
            began_s = time.perf_counter() - request.started
            await response.send(send, self._headers(request, began_s))
        except Exception as error:  # the edge: its status is sent, so that its connection ends
            _log.event("request_crashed", level="error", error=error, id=request.id)
            request.failure = ShoalError("an internal error").info
        failure = request.failure
        if failure is not None:
            self.gateway.metrics.error(failure.code)
        status = response.status if failure is None else failure.status
        self._record(route, request, status, time.perf_counter() - request.started)

    async def _send(
        self, request: Request, response: Response, send: Send, headers: list[Header]
    ) -> None:
        size, connection = response.bytes, request.connection
        if connection is None or size <= JOIN_MOST_BYTES:
            await response.send(send, headers)
            return
        with self.gateway.unread.holding(size, connection):
            await response.send(send, headers)
            await connection.drained()

    def _identify(self, request: Request) -> None:
        self._calls += 1
        request.key = f"{self.gateway.id}-{self._calls:x}"
        given = request.text_header(b"x-request-id")
        request.id = given if _REQUEST_ID.match(given) else request.key
        request.caller = parse(request.text_header(b"traceparent"))
        request.trace = begin(request.caller)

    async def _respond(self, route: Route, rest: str, request: Request) -> Response | EventStream:
        if self._access.is_preflight(request):
            return self._access.preflight(request, route.allow)
        if not route.open:
            request.key_name = self._access.key_name(request)
        handler = route.handler(request.method)
        if self.gateway.draining and not route.open:
            raise ShuttingDown()
        return await handler(request, rest)

    def _error(self, error: ShoalError, route: Route | None, request: Request) -> Response:
        envelope: Envelope = native if route is None else route.envelope
        msgpack = envelope is native and request.wants_msgpack
        self.gateway.metrics.error(error.code)
        response = error_response(error.info, envelope, msgpack=msgpack)
        return response.with_headers(self._error_headers(error, route, request))

    def _error_headers(
        self, error: ShoalError, route: Route | None, request: Request
    ) -> tuple[Header, ...]:
        headers: list[Header] = []
        if isinstance(error, MethodNotAllowed) and route is not None:
            headers.append((b"allow", route.allow.encode()))
        if isinstance(error, Unauthorized):
            headers.append((b"www-authenticate", b"Bearer"))
        too_slow = isinstance(error, DeadlineExceeded)
        if not request.complete and (too_slow or request.hopeless(self._settings.max_body_bytes)):
            headers.append((b"connection", b"close"))
        return tuple(headers)

    # --- what is said of it ----------------------------------------------------------------------

    def _headers(self, request: Request, seconds: float) -> list[Header]:
        headers = [
            (b"x-request-id", request.id.encode("latin-1")),
            (b"server-timing", server_timing(request, seconds)),
            *self._access.cors_headers(request),
        ]
        if self.gateway.draining:
            headers.append((b"connection", b"close"))
        return headers

    def _record(self, route: Route | None, request: Request, status: int, seconds: float) -> None:
        path = "" if route is None else route.path
        self.gateway.metrics.request(path, status, seconds)
        if route is not None and route.open:
            return
        self._trace(path, request, status, seconds)
        # A line costs 40 µs, a quarter of a request: successes are told by metrics and traces too.
        _log.event(
            "request",
            level="debug" if status < 400 else "info",
            id=request.id,
            route=path,
            model=request.model,
            status=status,
            items=request.items,
            ms=round(seconds * 1e3, 2),
        )

    def _trace(self, path: str, request: Request, status: int, seconds: float) -> None:
        tracer = self.gateway.tracer
        if tracer is None:
            return
        now = time.time()
        attributes: dict[str, str | int] = {
            "http.route": path,
            "http.response.status_code": status,
        }
        tracer.request(path, request.trace, request.caller, now - seconds, now, attributes)


def server_timing(request: Request, seconds: float) -> bytes:
    """https://www.w3.org/TR/server-timing/, in milliseconds, of the request's slowest unit."""
    total = b"total;dur=%.2f" % (seconds * 1e3)
    spent = request.timings
    if spent is None:
        return total
    return b"queue;dur=%.2f, prepare;dur=%.2f, wait;dur=%.2f, compute;dur=%.2f, %b" % (
        spent.queue_s * 1e3,
        spent.prepare_s * 1e3,
        spent.wait_s * 1e3,
        spent.compute_s * 1e3,
        total,
    )
