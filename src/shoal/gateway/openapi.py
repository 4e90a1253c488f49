"""`GET /openapi.json`: the API's description, made from the structs that decode it.

Decides nothing that the routes do not: a schema that parts from the code is a bug here.
"""

from __future__ import annotations

from typing import Any

import msgspec

from shoal import __version__
from shoal.gateway.http import Request, Response
from shoal.gateway.operations import OPERATIONS, Operation
from shoal.gateway.service import Gateway
from shoal.gateway.standing import CLASSES, PRIORITY_MOST
from shoal.settings import GatewaySettings

_REF = "#/components/schemas/{name}"
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
    _, schemas = msgspec.json.schema_components(_structs(), ref_template=_REF)
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


def _structs() -> list[type[msgspec.Struct]]:
    """Every struct that an operation names, once."""
    every = [o for methods in OPERATIONS.values() for o in methods.values()]
    named = [struct for o in every for struct in (o.body, o.answer, o.error) if struct is not None]
    return list(dict.fromkeys(named))


def _paths() -> dict[str, Any]:
    return {
        path: {method: _described(path, operation) for method, operation in methods.items()}
        for path, methods in OPERATIONS.items()
    }


def _described(path: str, operation: Operation) -> dict[str, Any]:
    if operation.answer is None:
        plain = {"200": {"description": "OK"}}
        return {"summary": operation.summary, "security": [], "responses": plain}
    described: dict[str, Any] = {
        "summary": operation.summary,
        "operationId": operation.id,
        "responses": {
            "200": {"description": "OK", "content": _content(operation, operation.answer)},
            "default": {
                "description": "An error.",
                "content": _content(operation, operation.error),
            },
        },
    }
    parameters = [
        *([_MODEL_PARAMETER] if path.endswith("{model}") else []),
        *(_TURN_PARAMETERS if operation.turn else []),
    ]
    if parameters:
        described["parameters"] = parameters
    if operation.body is not None:
        content = _content(operation, operation.body)
        described["requestBody"] = {"required": True, "content": content}
    return described


def _content(operation: Operation, struct: type[msgspec.Struct]) -> dict[str, Any]:
    schema = {"schema": {"$ref": _REF.format(name=struct.__name__)}}
    return dict.fromkeys(operation.formats, schema)
