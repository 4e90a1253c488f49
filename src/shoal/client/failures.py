"""Which exception an error answer becomes.

The one place that maps codes and statuses back to the tree in `shoal.errors`. A code that this
version does not know becomes a plain `ShoalError` with the server's code and status; an answer
that is no Shoal error at all (a proxy's page) is judged by its status.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from shoal import errors
from shoal.errors import ShoalError
from shoal.values import number

MSGPACK = "application/msgpack"

_BY_STATUS: dict[int, type[ShoalError]] = {
    401: errors.Unauthorized,
    403: errors.Unauthorized,
    404: errors.NotFound,
    405: errors.MethodNotAllowed,
    408: errors.DeadlineExceeded,
    413: errors.PayloadTooLarge,
    415: errors.UnsupportedMediaType,
    429: errors.Overloaded,
    502: errors.Unavailable,
    503: errors.Unavailable,
    504: errors.DeadlineExceeded,
}


class ErrorBody(msgspec.Struct, frozen=True):
    """An error in an answer, of a request or of one item; OpenAI's shape lacks `retryable`."""

    code: str
    message: str
    retryable: bool | None = None
    param: str | None = None


class _Envelope(msgspec.Struct, frozen=True):
    error: ErrorBody


_from_msgpack = msgspec.msgpack.Decoder(_Envelope).decode
_from_json = msgspec.json.Decoder(_Envelope).decode


def _classes(root: type[ShoalError]) -> Iterator[type[ShoalError]]:
    yield root
    for child in root.__subclasses__():
        yield from _classes(child)


#: Those with a code of their own: others are a process's own matter.
_BY_CODE = {cls.code: cls for cls in _classes(ShoalError) if "code" in vars(cls)}


def of_item(body: ErrorBody) -> ShoalError:
    """The exception for the error of one item; it has the status of its class."""
    return _of_body(body, _class(body).status)


def reword(error: ShoalError, message: str, param: str | None) -> None:
    """Say the same in the caller's terms."""
    error.message, error.param, error.args = message, param, (message,)


def failure(status: int, headers: Mapping[str, str], body: bytes) -> ShoalError:
    """The exception for an answer that is no 2xx."""
    retry_after_s = _seconds(headers.get("retry-after"))
    said = _read(headers.get("content-type", ""), body)
    error = _of_body(said or _judged(status, body), status, retry_after_s)
    if request_id := headers.get("x-request-id"):
        error.add_note(f"request id: {request_id}")
    return error


def _read(content_type: str, body: bytes) -> ErrorBody | None:
    decode = _from_msgpack if MSGPACK in content_type else _from_json
    try:
        return decode(body).error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _judged(status: int, body: bytes) -> ErrorBody:
    fallback = errors.InvalidRequest if 400 <= status < 500 else ShoalError
    text = " ".join(body[:200].decode(errors="replace").split())
    message = f"HTTP {status} that is not from a Shoal gateway" + (f": {text}" if text else "")
    return ErrorBody(_BY_STATUS.get(status, fallback).code, message)


def _class(body: ErrorBody) -> type[ShoalError]:
    return _BY_CODE.get(body.code, ShoalError)


def _of_body(body: ErrorBody, status: int, retry_after_s: float | None = None) -> ShoalError:
    cls = _class(body)
    retryable = cls.retryable if body.retryable is None else body.retryable
    error = cls(body.message, param=body.param, retry_after_s=retry_after_s)
    # A server of another version may judge differently: its word stands, not the class's.
    vars(error).update(code=body.code, status=status, retryable=retryable)
    return error


def _seconds(retry_after: str | None) -> float | None:
    # RFC 9110 also allows a date; without a wall clock it says nothing, and backoff applies.
    seconds = None if retry_after is None else number(retry_after)
    return seconds if seconds is not None and seconds >= 0 else None
