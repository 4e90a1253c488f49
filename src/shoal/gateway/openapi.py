"""`GET /openapi.json`: the API's description, made from the structs that decode it.

Decides nothing that the routes do not: a schema that parts from the code is a bug here.
"""

from __future__ import annotations

from typing import Any

import msgspec

from shoal import __version__
from shoal.gateway.operations import OPERATIONS, Operation
from shoal.gateway.request import Request
from shoal.gateway.response import Response
from shoal.gateway.service import Gateway
from shoal.gateway.standing import CLASSES, PRIORITY_MOST
from shoal.settings import GatewaySettings

_REF = "#/components/schemas/{name}"

#: Type -> its schema, most of them a reference.
Schemas = dict[Any, dict[str, Any]]

_MODEL_PARAMETER = {
    "name": "model",
    "in": "path",
    "required": True,
    "description": "A model's name or alias; it may contain slashes.",
    "schema": {"type": "string"},
}
_MODEL_FIELD = {
    "name": "model",
    "in": "query",
    "description": "A model's name or alias; unset: the only one that does the task.",
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
    types = _types()
    found, components = msgspec.json.schema_components(types, ref_template=_REF)
    whole: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "Shoal", "version": __version__, "license": {"name": "Apache-2.0"}},
        "paths": _paths(dict(zip(types, found, strict=True))),
        "components": {"schemas": components},
    }
    if needs_key:
        whole["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        whole["security"] = [{"key": []}]
    return whole


def _types() -> list[Any]:
    """Every type that an operation names, once."""
    every = [o for methods in OPERATIONS.values() for o in methods.values()]
    named = [type_ for o in every for type_ in (o.body, o.answer, o.error) if type_ is not None]
    return list(dict.fromkeys(named))


def _paths(schemas: Schemas) -> dict[str, Any]:
    return {
        path: {method: _described(path, o, schemas) for method, o in methods.items()}
        for path, methods in OPERATIONS.items()
    }


def _described(path: str, operation: Operation, schemas: Schemas) -> dict[str, Any]:
    if operation.answer is None:
        plain = {"200": {"description": "OK"}}
        return {"summary": operation.summary, "security": [], "responses": plain}
    good = _content(operation.formats, schemas[operation.answer])
    if operation.events:
        good |= _content(("text/event-stream",), {"type": "string"})
    bad = _content(operation.formats, schemas[operation.error])
    described: dict[str, Any] = {
        "summary": operation.summary,
        "operationId": operation.id,
        "responses": {
            "200": {"description": "OK", "content": good},
            "default": {"description": "An error.", "content": bad},
        },
    }
    if parameters := _parameters(path, operation):
        described["parameters"] = parameters
    if operation.body is not None:
        content = _content(operation.takes or operation.formats, schemas[operation.body])
        described["requestBody"] = {"required": True, "content": content}
    return described


def _parameters(path: str, operation: Operation) -> list[dict[str, Any]]:
    return [
        *([_MODEL_PARAMETER] if path.endswith("{model}") else []),
        *([_MODEL_FIELD] if operation.model_field else []),
        *(_TURN_PARAMETERS if operation.turn else []),
    ]


def _content(formats: tuple[str, ...], schema: dict[str, Any]) -> dict[str, Any]:
    return {type_: {"schema": schema} for type_ in formats}
