"""The stream of dead letters: putting one there, reading them, dropping one.

A letter is known by its sequence in the stream, which never names another one. Nothing here knows
why a unit was given up, or what becomes of it.
"""

from __future__ import annotations

import base64
import datetime
from collections.abc import AsyncIterator

import msgspec

from shoal.broker.answers import ApiError
from shoal.broker.connection import Connection
from shoal.errors import BrokerError, NotFound, ProtocolError, Unavailable
from shoal.wire import subjects
from shoal.wire.codec import encode
from shoal.wire.queue import DeadLetter, decode_queue

# Errors of $JS.API: no message found; no such sequence to delete; no such stream.
_NOT_THERE = (10037, 10043, 10059)


class Kept(msgspec.Struct, frozen=True):
    """A letter on the stream of the pool that gave it up.

    `stored_s`: when it came there, by the broker's clock (Unix time).
    """

    id: int
    stored_s: float
    pool: str
    letter: DeadLetter


class Unreadable(msgspec.Struct, frozen=True):
    """What lies on the stream and is no letter that this version can read."""

    id: int
    reason: str

    @property
    def error(self) -> ProtocolError:
        return ProtocolError(
            f"dead letter {self.id} cannot be read ({self.reason}); `shoal dead drop {self.id}` "
            f"removes it"
        )


class _Message(msgspec.Struct, frozen=True):
    seq: int
    subject: str
    time: datetime.datetime
    data: str = ""


class _Answer(msgspec.Struct, frozen=True):
    error: ApiError | None = None
    message: _Message | None = None


async def keep(connection: Connection, pool: str, letter: DeadLetter, message_id: str) -> int:
    """Store a letter, once for each `message_id`; returns its id.

    Raises:
        ShoalError: the broker is away, has no room, or takes no message of this size.
    """
    return await connection.store(subjects.dead_subject(pool), encode(letter), message_id)


async def letters(connection: Connection, after: int = 0) -> AsyncIterator[Kept | Unreadable]:
    """All letters, oldest first; those with an id above `after`. Raises `Unavailable`."""
    while (kept := await _get(connection, after + 1, {"next_by_subj": _ALL})) is not None:
        after = kept.id
        yield kept


async def get(connection: Connection, id_: int) -> Kept:
    """One letter. Raises `NotFound`, `Unavailable`, `ProtocolError` for one that is unreadable."""
    kept = await _get(connection, id_, {})
    if kept is None:
        raise _not_there(id_)
    if isinstance(kept, Unreadable):
        raise kept.error
    return kept


async def drop(connection: Connection, id_: int) -> None:
    """Remove a letter for good. Raises `NotFound`, `Unavailable`."""
    if await _get(connection, id_, {}) is None:
        raise _not_there(id_)
    subject = f"STREAM.MSG.DELETE.{subjects.DEAD_STREAM}"
    answer = await connection.api(subject, {"seq": id_}, _Answer)
    if answer.error is not None and answer.error.err_code not in _NOT_THERE:
        raise BrokerError(f"cannot drop dead letter {id_}: {answer.error.description}")


def _not_there(id_: int) -> NotFound:
    return NotFound(f"there is no dead letter {id_}; `shoal dead list` shows those there are")


_ALL = f"{subjects.DEAD_LETTERS}.>"


async def _get(connection: Connection, id_: int, which: dict[str, str]) -> Kept | Unreadable | None:
    subject = f"STREAM.MSG.GET.{subjects.DEAD_STREAM}"
    answer = await connection.api(subject, {"seq": id_, **which}, _Answer)
    if answer.error is not None:
        if answer.error.err_code in _NOT_THERE:
            return None
        raise Unavailable(f"cannot read dead letters: {answer.error.description}")
    message = answer.message
    if message is None:
        raise ProtocolError("JetStream answered without a message")
    try:
        letter = decode_queue(base64.b64decode(message.data))
    except ProtocolError as error:
        return Unreadable(message.seq, error.message)
    if not isinstance(letter, DeadLetter):
        return Unreadable(message.seq, f"it is a {type(letter).__name__}")
    pool = subjects.name_of(message.subject.rpartition(".")[2])
    return Kept(message.seq, message.time.timestamp(), pool, letter)
