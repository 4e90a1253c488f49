"""Sends answers to gateways and hears whether they were settled.

A reply carries an inbox of ours. The gateway acks the unit with that inbox as reply subject, so
that the broker itself confirms the ack here; and if no gateway listens, the broker says so here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from itertools import count
from typing import cast

import msgspec

from shoal.broker.base import Bus
from shoal.core import events as ev
from shoal.errors import ErrorInfo, PayloadTooLarge, Unavailable
from shoal.wire.codec import encode
from shoal.wire.queue import Piece, Reply, ReplyPart, Unit
from shoal.worker.stash import Stash

#: Left of the broker's message limit for subjects, headers and the part's own fields.
_ROOM_BYTES = 4096
#: Larger answers go in parts: a gateway takes in one of these in about a millisecond.
_PART_BYTES = 1024 * 1024
_NO_RESPONDERS = "503"


class _Withheld(msgspec.Struct):
    times: int = 0
    asked: bool = False


class Replies:
    """Answers on their way; each unit has a number of its own in our inbox."""

    def __init__(self, bus: Bus, worker: str, emit: Callable[[ev.Event], None]) -> None:
        self._bus = bus
        self._worker = worker
        self._emit = emit
        self._inbox = bus.inbox()
        self._numbers = count(1)
        self._units: dict[str, str] = {}  # number -> unit
        self._sent: dict[str, str] = {}  # unit -> number
        self._withheld: dict[str, _Withheld] = {}
        bus.subscribe(f"{self._inbox}.*", self._heard)

    def send(self, stash: Stash) -> None:
        """Send the unit's answer; while disconnected nothing happens, the core sends it again."""
        withheld = self._withheld.get(stash.unit.id)
        if withheld is not None:
            withheld.asked = True
            return
        self._publish(stash, stash.answer(self._worker))

    def more(self, unit: Unit, piece: Piece) -> None:
        """Send a piece of a text; one that is lost, or no message has room for, comes with the answer."""
        with contextlib.suppress(Unavailable, PayloadTooLarge):
            self._bus.publish(unit.reply_to, encode(piece))

    @property
    def worker(self) -> str:
        return self._worker

    def withhold(self, unit: str) -> None:
        """Send no answer of this unit until `release` was called as often."""
        self._withheld.setdefault(unit, _Withheld()).times += 1

    def release(self, stash: Stash) -> None:
        """Send what was withheld, if nothing else keeps it back and the unit is still here."""
        withheld = self._withheld.get(stash.unit.id)
        if withheld is None:
            return
        withheld.times -= 1
        if withheld.times == 0:
            del self._withheld[stash.unit.id]
            if withheld.asked:
                self.send(stash)

    def send_error(self, stash: Stash, error: ErrorInfo) -> None:
        """Answer the unit with an error as a whole."""
        stash.fail_all(error, self._worker)
        self.send(stash)

    def forget(self, stash: Stash) -> None:
        self._withheld.pop(stash.unit.id, None)
        number = self._sent.pop(stash.unit.id, None)
        if number is not None:
            self._units.pop(number, None)

    def _publish(self, stash: Stash, reply: Reply) -> None:
        unit = stash.unit
        number = self._sent.get(unit.id)
        if number is None:
            number = self._sent[unit.id] = str(next(self._numbers))
            self._units[number] = unit.id
        data = encode(reply)
        inbox = f"{self._inbox}.{number}"
        room = min(_PART_BYTES, self._bus.max_payload - _ROOM_BYTES)
        with contextlib.suppress(Unavailable):
            if len(data) <= room:
                self._bus.publish(unit.reply_to, data, inbox)
            else:
                self._publish_parts(unit.id, unit.reply_to, data, room, inbox)

    def _publish_parts(self, unit: str, subject: str, data: bytes, room: int, inbox: str) -> None:
        """Only the last part asks for the ack: it is sent when all have come."""
        parts = -(-len(data) // room)
        view = memoryview(data)
        for part in range(parts):
            piece = view[part * room : (part + 1) * room]
            # Any buffer is encoded as bytes are.
            message = encode(ReplyPart(unit, self._worker, part, parts, cast(bytes, piece)))
            self._bus.publish(subject, message, inbox if part == parts - 1 else "")

    def _heard(self, data: bytes, reply: str, status: str | None, subject: str) -> None:
        unit = self._units.get(subject.rpartition(".")[2])
        if unit is None:
            return
        if status is not None and status.startswith(_NO_RESPONDERS):
            self._emit(ev.Unheard(unit))
        else:
            self._emit(ev.Settled(unit))
