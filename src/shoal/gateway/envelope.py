"""The two shapes an error has over HTTP: Shoal's own, and the one OpenAI's clients read."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import msgspec

from shoal.errors import ErrorInfo
from shoal.gateway.headers import MSGPACK, Header
from shoal.gateway.response import Response

Envelope = Callable[[ErrorInfo], dict[str, Any]]


def native(error: ErrorInfo) -> dict[str, Any]:
    """``{"error": {"code", "message", "retryable", "param"}}``."""
    return {"error": described(error)}


def described(error: ErrorInfo) -> dict[str, Any]:
    """An error as it stands in an answer, for a whole request or for one item."""
    return {
        "code": error.code,
        "message": error.message,
        "retryable": error.retryable,
        "param": error.param,
    }


#: https://platform.openai.com/docs/guides/error-codes: the `type` their clients know, by status.
_OPENAI_TYPES = {
    401: "authentication_error",
    404: "invalid_request_error",
    429: "rate_limit_error",
}


def openai(error: ErrorInfo) -> dict[str, Any]:
    """``{"error": {"message", "type", "param", "code"}}``."""
    fallback = "invalid_request_error" if error.status < 500 else "server_error"
    return {
        "error": {
            "message": error.message,
            "type": _OPENAI_TYPES.get(error.status, fallback),
            "param": error.param,
            "code": error.code,
        }
    }


def error_response(
    error: ErrorInfo, envelope: Envelope = native, *, msgpack: bool = False
) -> Response:
    """The response that an error becomes, and when to send the request again, if at all."""
    shape = envelope(error)
    headers = (*_retry_after(error), *_never(error))
    if msgpack:
        return Response(msgspec.msgpack.encode(shape), error.status, MSGPACK, headers)
    return Response(msgspec.json.encode(shape), error.status, headers=headers)


def item_failed(error: ErrorInfo, where: str, envelope: Envelope) -> Response:
    """The response of a request that fails with one of its items; `where` names that one.

    An error that says what is at fault keeps to that.
    """
    if error.param is None:
        message = f"{where}: {error.message}"
        error = msgspec.structs.replace(error, message=message, param=where)
    return error_response(error, envelope)


def _retry_after(error: ErrorInfo) -> tuple[Header, ...]:
    if error.status not in (429, 503) and error.retry_after_s is None:
        return ()
    return ((b"retry-after", b"%d" % max(1, math.ceil(error.retry_after_s or 1.0))),)


def _never(error: ErrorInfo) -> tuple[Header, ...]:
    """OpenAI's clients send again whatever answered 5xx, after `Retry-After`: a minute, for what does
    not load. This is how they are told not to (`_should_retry` of their `_base_client.py`)."""
    return () if error.retryable or error.status < 500 else ((b"x-should-retry", b"false"),)
