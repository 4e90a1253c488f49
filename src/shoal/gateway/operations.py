"""What there is to say of each route, for the OpenAPI document: one entry a path and a method."""

from __future__ import annotations

from typing import Any

import msgspec

from shoal.gateway.compat.chat import ChatBody
from shoal.gateway.compat.chat_answers import ChatAnswer
from shoal.gateway.compat.completions import CompletionAnswer, CompletionsBody
from shoal.gateway.compat.embeddings import EmbeddingsBody
from shoal.gateway.compat.moderations import ModerationsAnswer, ModerationsBody
from shoal.gateway.compat.rerank import CohereErrorAnswer, RerankAnswer, RerankBody
from shoal.gateway.compat.responses.answers import ResponseObject
from shoal.gateway.compat.responses.bodies import ResponsesBody
from shoal.gateway.compat.tei.bodies import (
    AnyBody,
    DecodeBody,
    EmbedBody,
    Info,
    PredictBody,
    Prediction,
    Rank,
    RankBody,
    SimilarityBody,
    TeiErrorAnswer,
    Term,
    TokenizeBody,
)
from shoal.gateway.compat.transcriptions import TranscriptionAnswer, TranscriptionForm
from shoal.gateway.encode import EncodeBody
from shoal.gateway.extract import ExtractBody
from shoal.gateway.generate import GenerateBody
from shoal.gateway.models import ModelObject
from shoal.gateway.schemas import (
    EmbeddingsAnswer,
    EncodeAnswer,
    ErrorAnswer,
    ExtractAnswer,
    GenerateAnswer,
    ModelList,
    OpenAIErrorAnswer,
    ScoreAnswer,
)
from shoal.gateway.score import ScoreBody
from shoal.wire.objects import Token

JSON = ("application/json",)
BOTH = ("application/json", "application/msgpack")


class Operation(msgspec.Struct, frozen=True):
    """One method of one path.

    Attributes:
        answer: None: nothing that a type describes, and no key is needed.
        formats: of the answer; and of the body, where it `takes` no others.
        turn: it is work, so that headers may say when it is its turn.
        model_field: the query string may name the model.
        events: with `stream` in its body, it is answered by server-sent events.
    """

    summary: str
    id: str = ""
    answer: Any = None
    error: type[msgspec.Struct] = ErrorAnswer
    body: type[msgspec.Struct] | None = None
    formats: tuple[str, ...] = JSON
    takes: tuple[str, ...] = ()
    turn: bool = True
    model_field: bool = False
    events: bool = False


_RERANK = Operation(
    "Documents in the order in which they answer a query; Cohere's shape, and Jina's.",
    "rerank",
    RerankAnswer,
    CohereErrorAnswer,
    RerankBody,
)


def _tei(
    summary: str, id_: str, answer: Any, body: type[msgspec.Struct] | None = None
) -> Operation:
    return Operation(
        f"{summary}; as text-embeddings-inference.",
        id_,
        answer,
        TeiErrorAnswer,
        body,
        turn=body is not None,
        model_field=not id_.startswith("teiModel"),
    )


_TEI: dict[str, dict[str, Operation]] = {
    "/embed": {"post": _tei("A vector a text", "teiEmbed", list[list[float]], EmbedBody)},
    "/embed_all": {
        "post": _tei("A vector a token", "teiEmbedAll", list[list[list[float]]], EmbedBody)
    },
    "/embed_sparse": {
        "post": _tei("The terms of each text", "teiEmbedSparse", list[list[Term]], EmbedBody)
    },
    "/similarity": {
        "post": _tei("Cosines of a text and others", "teiSimilarity", list[float], SimilarityBody)
    },
    "/rerank": {"post": _tei("Texts by how well they answer", "teiRerank", list[Rank], RankBody)},
    "/predict": {
        "post": _tei(
            "What a text is; a list of it for each of several",
            "teiPredict",
            list[Prediction],
            PredictBody,
        )
    },
    "/tokenize": {
        "post": _tei("The tokens of each text", "teiTokenize", list[list[Token]], TokenizeBody)
    },
    "/decode": {"post": _tei("The text of token ids", "teiDecode", list[str], DecodeBody)},
    "/tei/{model}": {
        "get": _tei("`{model}/info` and `{model}/health`", "teiModelInfo", Info),
        "post": _tei(
            "`{model}/embed`, `{model}/rerank` and the others", "teiModel", list[Any], AnyBody
        ),
    },
    "/info": {"get": _tei("The model and what it takes", "teiInfo", Info)},
    "/health": {"get": Operation("Requests would be answered; as text-embeddings-inference.")},
}

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
    "/v1/generate/{model}": {
        "post": Operation(
            "Texts and conversations to more text; with `stream` as server-sent events.",
            "generate",
            GenerateAnswer,
            body=GenerateBody,
            formats=BOTH,
            events=True,
        )
    },
    "/v1/chat/completions": {
        "post": Operation(
            "OpenAI's chat; with `stream` as server-sent events.",
            "createChatCompletion",
            ChatAnswer,
            OpenAIErrorAnswer,
            ChatBody,
            events=True,
        )
    },
    "/v1/completions": {
        "post": Operation(
            "OpenAI's completions; with `stream` as server-sent events.",
            "createCompletion",
            CompletionAnswer,
            OpenAIErrorAnswer,
            CompletionsBody,
            events=True,
        )
    },
    "/v1/responses": {
        "post": Operation(
            "OpenAI's responses, of which nothing is kept; with `stream` as server-sent events.",
            "createResponse",
            ResponseObject,
            OpenAIErrorAnswer,
            ResponsesBody,
            events=True,
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
    "/v1/moderations": {
        "post": Operation(
            "OpenAI's moderations.",
            "createModeration",
            ModerationsAnswer,
            OpenAIErrorAnswer,
            ModerationsBody,
        )
    },
    "/v1/audio/transcriptions": {
        "post": Operation(
            "OpenAI's transcriptions; `text`, `srt` and `vtt` come as plain text.",
            "createTranscription",
            TranscriptionAnswer,
            OpenAIErrorAnswer,
            TranscriptionForm,
            takes=("multipart/form-data",),
        )
    },
    "/v1/audio/translations": {
        "post": Operation(
            "OpenAI's translations into English, in the same formats.",
            "createTranslation",
            TranscriptionAnswer,
            OpenAIErrorAnswer,
            TranscriptionForm,
            takes=("multipart/form-data",),
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
    **_TEI,
}
