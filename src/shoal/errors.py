"""The one tree of errors, and the form they take on the wire and over HTTP.

Every class says whose fault it is (``status``), whether the same call may work later
(``retryable``) and how soon (``retry_after_s``). Foreign errors are mapped to one of these
at the edge where they appear; nothing in here knows HTTP frameworks or sockets.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

#: Longest message; what callers and files say is quoted in them and may be of any length.
MAX_MESSAGE = 2000
#: Longest `param`.
MAX_NAME = 200


class ErrorInfo(msgspec.Struct, frozen=True, array_like=True):
    """An error as it travels between processes; `ShoalError.info` makes it."""

    code: str
    message: str
    status: int = 500
    retryable: bool = False
    retry_after_s: float | None = None
    param: str | None = None


class ShoalError(Exception):
    """Base of all errors that Shoal raises on purpose."""

    code: ClassVar[str] = "internal"
    status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False

    def __init__(
        self, message: str, *, param: str | None = None, retry_after_s: float | None = None
    ) -> None:
        super().__init__(bounded(message))
        self.message = bounded(message)
        self.param = None if param is None else bounded(param, MAX_NAME)
        self.retry_after_s = retry_after_s

    @property
    def info(self) -> ErrorInfo:
        return ErrorInfo(
            self.code, self.message, self.status, self.retryable, self.retry_after_s, self.param
        )


# --- the caller's fault -------------------------------------------------------------------


class InvalidRequest(ShoalError):
    """The body or a header is malformed, or a parameter is out of range."""

    code = "invalid_request"
    status = 400


class InvalidItem(InvalidRequest):
    """One item cannot be read; `param` names it (``items[3]``)."""

    code = "invalid_item"


class TooManyTokens(InvalidRequest):
    """An item is longer than the model takes and truncation is off."""

    code = "too_many_tokens"


class Unauthorized(ShoalError):
    code = "unauthorized"
    status = 401


class NotFound(ShoalError):
    code = "not_found"
    status = 404


class UnknownModel(NotFound):
    """The message names the nearest known model."""

    code = "unknown_model"


class MethodNotAllowed(ShoalError):
    code = "method_not_allowed"
    status = 405


class PayloadTooLarge(ShoalError):
    """The message names the limit that was passed."""

    code = "payload_too_large"
    status = 413


class HeadTooLarge(ShoalError):
    """Request line and headers; the message names the limit."""

    code = "head_too_large"
    status = 431


class HeadTimeout(ShoalError):
    """The caller was too slow to say what it wants."""

    code = "head_timeout"
    status = 408
    retryable = True


class UnsupportedMediaType(ShoalError):
    code = "unsupported_media_type"
    status = 415


class ReaderTooSlow(ShoalError):
    """The caller took less of a stream than came for it; the message names the limit."""

    code = "reader_too_slow"
    status = 408


class RequestCancelled(ShoalError):
    """The client closed the connection; nobody reads this, it is counted."""

    code = "cancelled"
    status = 499


# --- nobody's fault: try again ------------------------------------------------------------


class Overloaded(ShoalError):
    """Too much predicted work is queued; refused before any work was done."""

    code = "overloaded"
    status = 429
    retryable = True


class Unavailable(ShoalError):
    """The broker or every worker is away, or this process is draining."""

    code = "unavailable"
    status = 503
    retryable = True


class ShuttingDown(Unavailable):
    """A gateway is told to end: another one, or the next, answers."""

    def __init__(self) -> None:
        super().__init__("this gateway is shutting down: try again", retry_after_s=1.0)


class PayloadMissing(Unavailable):
    """An item is not in the payload store: not yet, or no longer."""

    code = "payload_missing"


class DeadlineExceeded(ShoalError):
    code = "deadline_exceeded"
    status = 504
    retryable = True


class StreamBroken(ShoalError):
    """What a caller was sent of a text is not how the text begins: it was generated anew, as another."""

    code = "stream_broken"
    retryable = True


# --- our fault or the model's ---------------------------------------------------------------


class ModelLoadFailed(ShoalError):
    """Terminal until the cooldown ends; the message carries the reason."""

    code = "model_load_failed"
    status = 502


class RuntimeMissing(ModelLoadFailed):
    """No worker has the packages of the model's runtime; the message says which to install."""

    code = "runtime_missing"
    status = 501


class ModelOutputInvalid(ShoalError):
    """The model answered with NaN or infinity for this item."""

    code = "model_output_invalid"
    status = 500


class ComputeFailed(ShoalError):
    """The runtime could not compute this item (out of memory on its own, say)."""

    code = "compute_failed"
    status = 500


class DeadLettered(ShoalError):
    """The unit crashed its runtime too often and was set aside."""

    code = "dead_lettered"
    status = 500


class WorkerCrashed(ShoalError):
    """A defect in the worker itself; it ends, and its units go to another worker."""

    code = "worker_crashed"


# --- at start: what a person typed or wrote ---------------------------------------------------


class ConfigError(ShoalError):
    """A setting, a flag or a file is wrong; the message says where and what to do."""

    code = "config"


class CardError(ConfigError):
    """A catalog entry is wrong; the message names the file, the line and the nearest key."""

    code = "card"


class SourceError(ShoalError):
    """A model's files cannot be had: not found, wrong hash, no network, unsafe format."""

    code = "source"
    status = 502


class BrokerError(ShoalError):
    """`nats-server` is missing, cannot start, or refuses what was asked of it."""

    code = "broker"
    status = 503
    retryable = True


class ProtocolError(ShoalError):
    """Bytes on a socket or the queue that do not decode to a known message."""

    code = "protocol"


def reason(error: BaseException) -> str:
    """What a foreign error says, without the path that an `OSError` says too."""
    return (isinstance(error, OSError) and error.strerror) or str(error)


def bounded(text: str, most: int = MAX_MESSAGE) -> str:
    """`text`, without its middle where it is too long: a message's start and its reason stay."""
    if len(text) <= most:
        return text
    return f"{text[: most // 2]} … {text[-(most // 2) :]}"
