"""What all messages have in common: MessagePack arrays, ``[tag, field, ...]``, and their codec.

New fields are only ever appended, with a default, so that old and new processes understand each
other.
"""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from shoal.errors import ProtocolError

PROTOCOL_VERSION = 1

Buffer = bytes | bytearray | memoryview
T = TypeVar("T")

#: Figures that others add up or decide by: one that is none, negative or endless would spoil all
#: that follows, so a message with one is not read. 1e9 s are 30 years.
Seconds = Annotated[float, Meta(ge=0.0, le=1e9)]
Count = Annotated[int, Meta(ge=0)]
Amount = Annotated[float, Meta(ge=0.0, le=1e9)]


class Message(msgspec.Struct, frozen=True, array_like=True):
    """Base of all messages; each class has a tag of its own."""


_encoder = msgspec.msgpack.Encoder()


def encode(message: Message) -> bytes:
    """One message as MessagePack."""
    return _encoder.encode(message)


def encode_into(message: Message, buffer: bytearray, offset: int) -> None:
    """One message as MessagePack into `buffer` from `offset` on; what was after it is cut."""
    _encoder.encode_into(message, buffer, offset)


def decode(decoder: msgspec.msgpack.Decoder[T], data: Buffer, what: str) -> T:
    """`data` as `decoder` reads it. Raises `ProtocolError` that names `what` for anything else."""
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, RecursionError, OverflowError) as error:
        raise ProtocolError(f"{what}: {error}") from None
