"""`/healthz`, `/readyz`, `/metrics` and the index: what operators and the curious ask first."""

from __future__ import annotations

import asyncio

import msgspec

from shoal import __version__
from shoal.gateway.request import Request
from shoal.gateway.response import Response
from shoal.gateway.service import Gateway


class HealthRoute:
    """The handlers, bound to a gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def healthz(self, request: Request, rest: str) -> Response:
        """The process answers; nothing else is looked at."""
        return Response(b'{"status":"ok"}')

    async def readyz(self, request: Request, rest: str) -> Response:
        """200 if requests would be answered, else 503 with what is missing."""
        missing = self._gateway.missing()
        body = {"ready": not missing, "missing": missing, "workers": self._gateway.fleet.workers}
        return Response(msgspec.json.encode(body), status=503 if missing else 200)

    async def metrics(self, request: Request, rest: str) -> Response:
        """Prometheus text, rendered off the loop."""
        text, content_type = await asyncio.to_thread(self._gateway.metrics.render)
        return Response(text, content_type=content_type.encode())

    async def index(self, request: Request, rest: str) -> Response:
        """Where to go next."""
        body = {
            "name": "shoal",
            "version": __version__,
            "openapi": "/openapi.json",
            "models": "/v1/models",
            "encode": "/v1/encode/{model}",
            "score": "/v1/score/{model}",
            "extract": "/v1/extract/{model}",
            "generate": "/v1/generate/{model}",
            "openai": [
                "/v1/chat/completions",
                "/v1/completions",
                "/v1/responses",
                "/v1/embeddings",
                "/v1/moderations",
                "/v1/audio/transcriptions",
                "/v1/audio/translations",
            ],
            "cohere": ["/v1/rerank", "/v2/rerank"],
            "text-embeddings-inference": "/tei/{model}",
            "health": ["/healthz", "/readyz", "/metrics"],
        }
        return Response(msgspec.json.encode(body))
