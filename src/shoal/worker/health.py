"""`/healthz`, `/readyz` and `/metrics` of a worker: a few lines of ASGI on the worker's own loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec
import uvicorn

from shoal.errors import ConfigError
from shoal.settings import WorkerSettings
from shoal.telemetry.background import background
from shoal.telemetry.metrics import WorkerMetrics
from shoal.worker.report import Report

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

_JSON = "application/json"


class HealthServer:
    """Serves the three routes until `stop`."""

    def __init__(self, settings: WorkerSettings, report: Report, metrics: WorkerMetrics) -> None:
        self._report = report
        self._metrics = metrics
        self._socket = _listen(settings.health_host, settings.health_port)
        config = uvicorn.Config(
            self._app,
            ws="none",
            interface="asgi3",  # not found out for a bound method
            log_config=None,
            log_level="warning",
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=1,
        )
        self._server = _Server(config)
        self._task: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        host, port = self._socket.getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def start(self) -> None:
        self._task = background(self._server.serve(sockets=[self._socket]))

    async def stop(self) -> None:
        self._server.should_exit = True
        if self._task is not None:
            await self._task

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        match scope["path"]:
            case "/healthz":
                status, body, kind = 200, b'{"status":"ok"}', _JSON
            case "/readyz":
                missing = await self._report.missing()
                status = 503 if missing else 200
                body, kind = msgspec.json.encode({"ready": not missing, "missing": missing}), _JSON
            case "/metrics":
                status = 200
                body, kind = await asyncio.to_thread(self._metrics.render)
            case path:
                status, kind = 404, _JSON
                message = f"no route {path}; this worker has /healthz, /readyz and /metrics"
                body = msgspec.json.encode({"error": {"code": "not_found", "message": message}})
        headers = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


class _Server(uvicorn.Server):
    """Signals belong to the worker, not to its health port."""

    def capture_signals(self) -> contextlib.nullcontext[None]:  # type: ignore[override]
        return contextlib.nullcontext()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"health_host and health_port: cannot listen on {host}:{port}: {error.strerror}; "
            "set another port, or 0 for a free one"
        ) from None
    return listener
