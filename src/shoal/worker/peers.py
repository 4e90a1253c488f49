"""What workers of a pool tell each other: pulses as the core takes them, and batch pulls at once.

A lost message costs nothing but a worse guess.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

from shoal.broker.base import Bus
from shoal.core import events as ev
from shoal.core.groups import listens_to
from shoal.errors import ProtocolError, Unavailable
from shoal.wire import subjects
from shoal.wire.codec import encode
from shoal.wire.queue import Pulled, WorkerPulse, decode_queue


def peer_event(pulse: WorkerPulse) -> ev.PeerSeen | ev.PeerLost:
    """What another worker's pulse means: what it has, or that it leaves."""
    if pulse.draining:
        return ev.PeerLost(pulse.worker)
    models = {
        name: ev.PeerModel(m.state, m.lanes, m.bytes, m.load_s, m.failures, m.reason)
        for name, m in pulse.models.items()
    }
    return ev.PeerSeen(pulse.worker, models, len(pulse.lanes))


class Peers:
    """Batch pulls, told to the others and heard from them."""

    def __init__(self, bus: Bus, worker: str, pool: str, emit: Callable[[ev.Event], None]) -> None:
        self._bus = bus
        self._worker = worker
        self._pool = pool
        self._emit = emit
        for group in listens_to(worker):
            bus.subscribe(self._subject(group), self._heard)

    def _subject(self, group: ev.Group) -> str:
        return subjects.pulled_subject(self._pool, group.groups, group.number)

    def tell(self, told: ev.TellPulled) -> None:
        """Say what a pull leaves on a queue. Times travel as what is left of them."""
        due_in_s = told.due - time.monotonic()
        message = Pulled(self._worker, told.model, told.pending, due_in_s, told.klass)
        with contextlib.suppress(Unavailable):
            self._bus.publish(self._subject(told.group), encode(message))

    def _heard(self, data: bytes, reply: str, status: str | None, subject: str) -> None:
        with contextlib.suppress(ProtocolError):
            message = decode_queue(data)
            if isinstance(message, Pulled) and message.worker != self._worker:
                due = time.monotonic() + message.due_in_s
                self._emit(ev.PeerPulled(message.model, message.klass, message.pending, due))
