"""What there is to say of each route, for the OpenAPI document: one entry a path and a method."""

from __future__ import annotations

import msgspec

from shoal.gateway.compat.embeddings import EmbeddingsBody
from shoal.gateway.compat.rerank import CohereErrorAnswer, RerankAnswer, RerankBody
from shoal.gateway.encode import EncodeBody
from shoal.gateway.extract import ExtractBody
from shoal.gateway.models import ModelObject
from shoal.gateway.schemas import (
    EmbeddingsAnswer,
    EncodeAnswer,
    ErrorAnswer,
    ExtractAnswer,
    ModelList,
    OpenAIErrorAnswer,
    ScoreAnswer,
)
from shoal.gateway.score import ScoreBody

JSON = ("application/json",)
BOTH = ("application/json", "application/msgpack")


class Operation(msgspec.Struct, frozen=True):
    """One method of one path.

    Attributes:
        answer: None: nothing that a struct describes, and no key is needed.
        formats: of the body and of the answer.
        turn: it is work, so that headers may say when it is its turn.
    """

    summary: str
    id: str = ""
    answer: type[msgspec.Struct] | None = None
    error: type[msgspec.Struct] = ErrorAnswer
    body: type[msgspec.Struct] | None = None
    formats: tuple[str, ...] = JSON
    turn: bool = True


_RERANK = Operation(
    "Documents in the order in which they answer a query; Cohere's shape, and Jina's.",
    "rerank",
    RerankAnswer,
    CohereErrorAnswer,
    RerankBody,
)

OPERATIONS: dict[str, dict[str, Operation]] = {
    "/v1/encode/{model}": {
        "post": Operation(
            "Texts, token ids, images or audio to vectors.",
            "encode",
            EncodeAnswer,
            body=EncodeBody,
            formats=BOTH,
        )
    },
    "/v1/score/{model}": {
        "post": Operation(
            "How well documents answer a query.",
            "score",
            ScoreAnswer,
            body=ScoreBody,
            formats=BOTH,
        )
    },
    "/v1/extract/{model}": {
        "post": Operation(
            "Entities and labels of texts and images, transcripts of sound.",
            "extract",
            ExtractAnswer,
            body=ExtractBody,
            formats=BOTH,
        )
    },
    "/v1/embeddings": {
        "post": Operation(
            "OpenAI's embeddings.",
            "createEmbedding",
            EmbeddingsAnswer,
            OpenAIErrorAnswer,
            EmbeddingsBody,
        )
    },
    "/v1/rerank": {"post": _RERANK},
    "/v2/rerank": {"post": msgspec.structs.replace(_RERANK, id="rerankV2")},
    "/v1/models": {
        "get": Operation("The catalog.", "listModels", ModelList, OpenAIErrorAnswer, turn=False)
    },
    "/v1/models/{model}": {
        "get": Operation("One model.", "retrieveModel", ModelObject, OpenAIErrorAnswer, turn=False)
    },
    "/healthz": {"get": Operation("The process answers.")},
    "/readyz": {"get": Operation("Requests would be answered; else 503 with what is missing.")},
    "/metrics": {"get": Operation("Prometheus text.")},
}
