"""What leaves a gateway for the broker: units, acks, and word that nobody waits any more.

Decides nothing. It knows how a unit is encoded and where it goes, and turns what came of sending
one into an event.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from typing import Protocol, cast

import msgspec

from shoal.broker import streams
from shoal.broker.base import Acks, Bus, Queue
from shoal.core import admission_events as ev
from shoal.errors import BrokerError, ShoalError, Unavailable
from shoal.gateway.job import Call
from shoal.values import TrafficClass, task_of
from shoal.wire import subjects
from shoal.wire.codec import encode
from shoal.wire.queue import Cancel, Unit

#: A unit that the broker did not take says nothing of now after this long.
FAULT_FRESH_S = 10.0
#: Units whose time is up are still sent, for a reply that says so: a TTL must be above zero.
LEAST_BUDGET_S = 0.001


class Broker(Bus, Queue, Acks, Protocol):
    """What a gateway needs of the broker."""


class Outbox:
    """Sends what `admission` says, and tells `emit` of units that the broker did not take."""

    def __init__(
        self, gateway: str, pool: str, broker: Broker, emit: Callable[[ev.Event], None]
    ) -> None:
        self._pool = pool
        self._broker = broker
        self._emit = emit
        self._reply_to = subjects.reply_subject(gateway)
        self._subjects: dict[tuple[TrafficClass, str], str] = {}
        self._fault: tuple[float, str] | None = None

    @property
    def connected(self) -> bool:
        return self._broker.connected

    def fault(self) -> str | None:
        """Why the broker did not take the latest unit; None if it did, or that is long ago."""
        if self._fault is None:
            return None
        at, why = self._fault
        return why if asyncio.get_running_loop().time() - at < FAULT_FRESH_S else None

    def publish(self, call: Call, unit: str) -> None:
        """Put a unit of `call` on the queue."""
        left_s = call.deadline - asyncio.get_running_loop().time()
        message = self._unit(call, unit, max(LEAST_BUDGET_S, left_s))
        try:
            acked = self._broker.publish_unit(
                self._subject(message.klass, message.model), encode(message), message.budget_s, unit
            )
        except ShoalError as error:
            acked = asyncio.get_running_loop().create_future()
            acked.set_exception(error)
        acked.add_done_callback(partial(self._published, call, unit))

    def _unit(self, call: Call, unit: str, budget_s: float) -> Unit:
        job, span = call.job, call.spans[unit]
        payloads = {n - span.start: p for n, p in call.payloads.items() if n in span.positions}
        # Any buffer is encoded as bytes are.
        items = cast(list[bytes], job.items[span.start : span.end])
        for position in payloads:
            items[position] = b""
        params = job.params
        if job.seeds:
            params = msgspec.structs.replace(params, seed=job.seeds[span.start])
        return Unit(
            id=unit,
            request=job.key,
            model=job.card.name,
            task=task_of(params),
            params=params,
            encoding=job.encoding,
            items=items,
            budget_s=budget_s,
            reply_to=self._reply_to,
            klass=job.standing.klass,
            tenant=job.standing.tenant,
            trace=job.trace,
            priority=job.standing.priority,
            payloads=payloads,
        )

    def _subject(self, klass: TrafficClass, model: str) -> str:
        subject = self._subjects.get((klass, model))
        if subject is None:
            subject = subjects.work_subject(klass, self._pool, model)
            self._subjects[klass, model] = subject
        return subject

    def _published(self, call: Call, unit: str, acked: asyncio.Future[int]) -> None:
        if acked.cancelled():
            self._emit(ev.PublishFailed(unit))
            return
        error = acked.exception()
        if error is None:
            self._fault = None
            call.sequences[unit] = acked.result()
            if call.done.done():  # it was called off meanwhile, or its answer was faster
                self._recall(call)
            return
        self._fault = (asyncio.get_running_loop().time(), str(error))
        if isinstance(error, ShoalError) and not isinstance(error, BrokerError | Unavailable):
            self._emit(ev.PublishRefused(unit, error))
        else:
            self._emit(ev.PublishFailed(unit))

    def ack(self, ack: str, inbox: str) -> None:
        """Settle a delivery. Lost while disconnected: its worker sends the answer again."""
        with contextlib.suppress(Unavailable):
            self._broker.ack(ack, inbox)

    def cancel(self, call: Call) -> None:
        """Take its units off the queue, and tell all workers, which may have some.

        Lost while disconnected: the units' deadlines still hold.
        """
        with contextlib.suppress(Unavailable):
            self._broker.publish(subjects.CANCELS, encode(Cancel([call.job.key])))
        self._recall(call)

    def _recall(self, call: Call) -> None:
        """Units that wait for a worker would cost the first one that comes, or fill the stream."""
        klass = call.job.standing.klass
        with contextlib.suppress(Unavailable):
            for unit in call.sequences.keys() - call.answers.keys():
                streams.recall(self._broker, klass, call.sequences.pop(unit))
