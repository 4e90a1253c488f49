"""`GET /openapi.json`: the API's description, made from the structs that decode it.

Decides nothing that the routes do not: a schema that parts from the code is a bug here.
"""

from __future__ import annotations

from typing import Any

import msgspec

from shoal import __version__
from shoal.gateway.embeddings import EmbeddingsBody
from shoal.gateway.encode import EncodeBody
from shoal.gateway.http import Request, Response
from shoal.gateway.models import ModelObject
from shoal.gateway.schemas import (
    EmbeddingsAnswer,
    EncodeAnswer,
    ErrorAnswer,
    ModelList,
    OpenAIErrorAnswer,
)
from shoal.gateway.service import Gateway
from shoal.gateway.standing import CLASSES, PRIORITY_MOST
from shoal.settings import GatewaySettings

_REF = "#/components/schemas/{name}"
_STRUCTS = (
    EncodeBody,
    EncodeAnswer,
    EmbeddingsBody,
    EmbeddingsAnswer,
    ModelObject,
    ModelList,
    ErrorAnswer,
    OpenAIErrorAnswer,
)
_MODEL_PARAMETER = {
    "name": "model",
    "in": "path",
    "required": True,
    "description": "A model's name or alias; it may contain slashes.",
    "schema": {"type": "string"},
}
_TIMEOUT_PARAMETER = {
    "name": "X-Request-Timeout",
    "in": "header",
    "description": "Seconds until the answer is of no use.",
    "schema": {"type": "number", "exclusiveMinimum": 0},
}
_PRIORITY_PARAMETER = {
    "name": "X-Priority",
    "in": "header",
    "description": "Higher goes first among the requests of one user.",
    "schema": {
        "type": "integer",
        "minimum": -PRIORITY_MOST,
        "maximum": PRIORITY_MOST,
        "default": 0,
    },
}
_CLASS_PARAMETER = {
    "name": "X-Class",
    "in": "header",
    "description": "`bulk` runs in what interactive work leaves, and may wait longer.",
    "schema": {"enum": list(CLASSES), "default": "work"},
}
_USER_PARAMETER = {
    "name": "X-User",
    "in": "header",
    "description": "Who of the caller's own users asks; users take turns.",
    "schema": {"type": "string"},
}
_TURN_PARAMETERS = [_TIMEOUT_PARAMETER, _PRIORITY_PARAMETER, _CLASS_PARAMETER, _USER_PARAMETER]


class OpenApiRoute:
    """The route's handler; the document is made once."""

    def __init__(self, gateway: Gateway) -> None:
        self._document = msgspec.json.encode(document(_needs_key(gateway.settings)))

    async def get(self, request: Request, rest: str) -> Response:
        """The OpenAPI document."""
        return Response(self._document)


def _needs_key(settings: GatewaySettings) -> bool:
    return settings.api_key is not None or bool(settings.api_keys)


def document(needs_key: bool) -> dict[str, Any]:
    """The OpenAPI 3.1 document."""
    _, schemas = msgspec.json.schema_components(_STRUCTS, ref_template=_REF)
    whole: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "Shoal", "version": __version__, "license": {"name": "Apache-2.0"}},
        "paths": _paths(),
        "components": {"schemas": schemas},
    }
    if needs_key:
        whole["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        whole["security"] = [{"key": []}]
    return whole


def _paths() -> dict[str, Any]:
    return {
        "/v1/encode/{model}": {
            "post": {
                "summary": "Texts, token ids, images or audio to vectors.",
                "operationId": "encode",
                "parameters": [_MODEL_PARAMETER, *_TURN_PARAMETERS],
                "requestBody": _body(EncodeBody, "application/json", "application/msgpack"),
                "responses": _responses(
                    EncodeAnswer, ErrorAnswer, "application/json", "application/msgpack"
                ),
            }
        },
        "/v1/embeddings": {
            "post": {
                "summary": "OpenAI's embeddings.",
                "operationId": "createEmbedding",
                "parameters": _TURN_PARAMETERS,
                "requestBody": _body(EmbeddingsBody, "application/json"),
                "responses": _responses(EmbeddingsAnswer, OpenAIErrorAnswer, "application/json"),
            }
        },
        "/v1/models": {
            "get": {
                "summary": "The catalog.",
                "operationId": "listModels",
                "responses": _responses(ModelList, OpenAIErrorAnswer, "application/json"),
            }
        },
        "/v1/models/{model}": {
            "get": {
                "summary": "One model.",
                "operationId": "retrieveModel",
                "parameters": [_MODEL_PARAMETER],
                "responses": _responses(ModelObject, OpenAIErrorAnswer, "application/json"),
            }
        },
        "/healthz": {"get": _plain("The process answers.")},
        "/readyz": {"get": _plain("Requests would be answered; else 503 with what is missing.")},
        "/metrics": {"get": _plain("Prometheus text.")},
    }


def _ref(struct: type[msgspec.Struct]) -> dict[str, Any]:
    return {"schema": {"$ref": _REF.format(name=struct.__name__)}}


def _body(struct: type[msgspec.Struct], *types: str) -> dict[str, Any]:
    return {"required": True, "content": dict.fromkeys(types, _ref(struct))}


def _responses(
    good: type[msgspec.Struct], bad: type[msgspec.Struct], *types: str
) -> dict[str, Any]:
    return {
        "200": {"description": "OK", "content": dict.fromkeys(types, _ref(good))},
        "default": {"description": "An error.", "content": dict.fromkeys(types, _ref(bad))},
    }


def _plain(summary: str) -> dict[str, Any]:
    return {"summary": summary, "security": [], "responses": {"200": {"description": "OK"}}}
