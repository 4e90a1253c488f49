"""Every route of the gateway, in one table."""

from __future__ import annotations

from shoal.gateway.compat.chat import ChatRoute
from shoal.gateway.compat.completions import CompletionsRoute
from shoal.gateway.compat.embeddings import EmbeddingsRoute
from shoal.gateway.compat.moderations import ModerationsRoute
from shoal.gateway.compat.rerank import RerankRoute, cohere
from shoal.gateway.compat.responses.route import ResponsesRoute
from shoal.gateway.compat.tei.bodies import tei
from shoal.gateway.compat.tei.routes import WORK, TeiRoutes
from shoal.gateway.compat.transcriptions import TranscriptionsRoute
from shoal.gateway.encode import encode_route
from shoal.gateway.envelope import openai
from shoal.gateway.extract import extract_route
from shoal.gateway.generate import GenerateRoute
from shoal.gateway.health import HealthRoute
from shoal.gateway.models import ModelsRoute
from shoal.gateway.openapi import OpenApiRoute
from shoal.gateway.router import Route
from shoal.gateway.score import score_route
from shoal.gateway.service import Gateway


def routes(gateway: Gateway) -> list[Route]:
    """The routes, bound to `gateway`."""
    health, models, texts = HealthRoute(gateway), ModelsRoute(gateway), TeiRoutes(gateway)
    return [
        Route("/v1/encode/{model}", {"POST": encode_route(gateway).post}),
        Route("/v1/score/{model}", {"POST": score_route(gateway).post}),
        Route("/v1/extract/{model}", {"POST": extract_route(gateway).post}),
        Route("/v1/generate/{model}", {"POST": GenerateRoute(gateway).post}),
        Route("/v1/chat/completions", {"POST": ChatRoute(gateway).post}, openai),
        Route("/v1/completions", {"POST": CompletionsRoute(gateway).post}, openai),
        Route("/v1/responses", {"POST": ResponsesRoute(gateway).post}, openai),
        Route("/v1/embeddings", {"POST": EmbeddingsRoute(gateway).post}, openai),
        Route("/v1/moderations", {"POST": ModerationsRoute(gateway).post}, openai),
        Route(
            "/v1/audio/transcriptions",
            {"POST": TranscriptionsRoute(gateway, "transcribe").post},
            openai,
        ),
        Route(
            "/v1/audio/translations",
            {"POST": TranscriptionsRoute(gateway, "translate").post},
            openai,
        ),
        Route("/v1/rerank", {"POST": RerankRoute(gateway, "1").post}, cohere),
        Route("/v2/rerank", {"POST": RerankRoute(gateway, "2").post}, cohere),
        Route("/v1/models", {"GET": models.list}, openai),
        Route("/v1/models/{model}", {"GET": models.get}, openai),
        Route("/healthz", {"GET": health.healthz}, open=True),
        Route("/readyz", {"GET": health.readyz}, open=True),
        Route("/metrics", {"GET": health.metrics}, open=True),
        Route("/openapi.json", {"GET": OpenApiRoute(gateway).get}),
        Route("/", {"GET": health.index, "POST": texts.post("")}, tei),
        *(Route(f"/{name}", {"POST": texts.post(name)}, tei) for name in WORK if name),
        Route("/tei/{model}", {"GET": texts.get_of, "POST": texts.post_to}, tei),
        Route("/info", {"GET": texts.info}, tei),
        Route("/health", {"GET": texts.health}, tei, open=True),
    ]
