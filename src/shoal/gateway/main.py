"""The gateway process: sockets, the HTTP server, and how it ends.

Decides that the first SIGTERM drains (ready turns 503, new requests get 503, those in flight
finish within `drain_s`, or are told that they do not), that the second one does not wait for answers, and
a third one for nothing. It must not know routes.
"""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn

from shoal.broker.connection import Connection
from shoal.catalog.resolve import Catalog
from shoal.errors import ConfigError
from shoal.gateway.app import App
from shoal.gateway.connection import GatewayConnection
from shoal.gateway.service import Gateway
from shoal.settings import GatewaySettings
from shoal.telemetry import log
from shoal.telemetry.background import background
from shoal.telemetry.heap import keep_for_good

#: Idle connections are kept longer than any client's pool keeps them, so that the client is the
#: one to close: a server that closes first races with the next request.
KEEP_ALIVE_S = 75
#: Connections that may wait to be accepted.
BACKLOG = 2048
#: Seconds that answers on their way out have at least.
LEAST_GRACE_S = 1

OnReady = Callable[[str], None]

_log = log.get(__name__)


def run(
    settings: GatewaySettings,
    on_ready: OnReady | None = None,
    connect: type[Connection] = Connection,
) -> None:
    """Serve until SIGTERM or SIGINT. `on_ready` gets the base URL once requests are taken.

    `connect`: the kind of connection to use; one may send units elsewhere.

    Raises:
        ConfigError: the port is taken, a key cannot be one, or the catalog has a wrong card.
        BrokerError, Unavailable: the broker cannot be used.
    """
    log.configure(settings.log_level, settings.log_format)
    catalog = Catalog.load(settings.catalog)
    app = App(settings, lambda: Gateway.open(settings, catalog, connect))
    listener = bind(settings)
    server = Server(app, settings, listener, on_ready)
    try:
        server.run(sockets=[listener])
    except SystemExit:
        if app.failure is None:
            raise
    finally:
        listener.close()
    if app.failure is not None:
        raise app.failure


def bind(settings: GatewaySettings) -> socket.socket:
    """A bound socket. Raises `ConfigError` if the address cannot be had."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise _cannot_listen(settings, error) from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if settings.reuse_port:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise _cannot_listen(settings, error) from None
    return listener


def _cannot_listen(settings: GatewaySettings, error: OSError) -> ConfigError:
    return ConfigError(
        f"cannot listen on {settings.host}:{settings.port}: {error.strerror}; "
        f"set another port, or 0 for a free one"
    )


def base_url(listener: socket.socket) -> str:
    """``http://host:port``, as bound."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Server(uvicorn.Server):
    """uvicorn, with a drain that goes on answering."""

    def __init__(
        self,
        app: App,
        settings: GatewaySettings,
        listener: socket.socket,
        on_ready: OnReady | None,
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=GatewayConnection,
                loop="uvloop",
                ws="none",
                lifespan="on",
                log_config=None,
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                backlog=BACKLOG,
                timeout_keep_alive=KEEP_ALIVE_S,
            )
        )
        self._app = app
        self._settings = settings
        self._url = base_url(listener)
        self._on_ready = on_ready
        self._drain: asyncio.Task[None] | None = None
        self._hurried = False
        self._unanswered = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        keep_for_good()
        self._loop = asyncio.get_running_loop()
        _log.event("gateway_started", url=self._url, gateway=self._app.gateway.id)
        if self._on_ready is not None:
            self._on_ready(self._url)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal came: drain at the first, hurry at the second."""
        if self._loop is None or self.should_exit:
            self.should_exit = self.force_exit = True
        else:
            self._loop.call_soon_threadsafe(self._end, signal.Signals(sig).name)

    def _end(self, why: str) -> None:
        if self._drain is None:
            self._drain = background(self._drained(why))
        else:
            self._hurried = True
            self._stop()

    def _stop(self) -> None:
        """Wait no longer for answers."""
        self._unanswered += self._app.gateway.inflight.requests
        self._app.gateway.inflight.stop()

    async def _drained(self, why: str) -> None:
        gateway, loop = self._app.gateway, asyncio.get_running_loop()
        deadline = loop.time() + self._settings.drain_s
        gateway.draining = True
        _log.event("gateway_draining", signal=why, requests=gateway.inflight.requests)
        if self._settings.reuse_port:
            # Siblings share the port: the kernel hands them whoever connects from now on.
            for server in self.servers:
                server.close()
        try:
            await asyncio.wait_for(gateway.inflight.idle(), self._settings.drain_s)
        except TimeoutError:
            self._stop()
        _log.event("gateway_stopped", unanswered=self._unanswered)
        # What is left of the time belongs to bodies on their way in and answers on their way out.
        left_s = 0 if self._hurried else round(deadline - loop.time())
        self.config.timeout_graceful_shutdown = max(LEAST_GRACE_S, left_s)
        self.should_exit = True
