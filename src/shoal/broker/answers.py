"""JetStream's answers: what it says of a message to store, and how it says no.

Decides which of its refusals mean that there is too much, and which that it may work later.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from shoal.errors import Overloaded, ProtocolError, Unavailable

# Errors of $JS.API and of publish acks. The stream's own limit is 10077 (messages, bytes and
# messages per subject alike); 429 is the server's bound on what it has not stored yet.
_STREAM_FULL = 10077
_TOO_MANY = 429
_OTHER_SEQUENCE = 10071

A = TypeVar("A")


class ApiError(msgspec.Struct, frozen=True):
    """How JetStream says no."""

    code: int
    err_code: int = 0
    description: str = ""


class _PublishAck(msgspec.Struct, frozen=True):
    seq: int = 0
    error: ApiError | None = None


def decoded(data: bytes, answer: type[A]) -> A:
    """An answer of ``$JS.API``. Raises `ProtocolError`."""
    try:
        return msgspec.json.decode(data, type=answer)
    except msgspec.DecodeError as error:
        raise ProtocolError(f"answer of JetStream: {error}") from None


_decode_publish_ack = msgspec.json.Decoder(_PublishAck).decode


def _acked(data: bytes) -> _PublishAck:
    try:
        return _decode_publish_ack(data)
    except msgspec.DecodeError as error:
        raise ProtocolError(f"publish ack: {error}") from None


def sequence_if_expected(data: bytes) -> int | None:
    """As `sequence`; None where another message is the last one on its subject."""
    ack = _acked(data)
    unexpected = ack.error is not None and ack.error.err_code == _OTHER_SEQUENCE
    return None if unexpected else sequence(data)


def sequence(data: bytes) -> int:
    """The place on its stream of a message that was stored.

    Raises:
        Overloaded: there is no room, or too much at a time.
        Unavailable: it was not stored for another reason.
        ProtocolError: this is no answer of JetStream.
    """
    ack = _acked(data)
    if ack.error is None:
        return ack.seq
    if ack.error.err_code == _STREAM_FULL or ack.error.code == _TOO_MANY:
        raise Overloaded(f"the queue is full: {ack.error.description}", retry_after_s=1.0)
    raise Unavailable(f"the broker did not take the unit: {ack.error.description}")
