"""Requests in flight: performs what `core.admission` decides, on a real broker and a real clock.

Decides nothing about admission, release or settling. It knows how answers come in, and how a caller
that goes away or runs out of time is noticed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import assert_never

from shoal.catalog.card import Card
from shoal.core import admission_events as ev
from shoal.core.admission import Admission
from shoal.errors import ProtocolError, ReaderTooSlow, ShoalError, Unavailable
from shoal.gateway.calls import Calls
from shoal.gateway.feed import Feed
from shoal.gateway.fleet import Fleet
from shoal.gateway.job import Call, Job
from shoal.gateway.outbox import Broker, Outbox
from shoal.gateway.payloads import Uploads
from shoal.gateway.replies import Answer, PartJoiner
from shoal.gateway.units import UnitLimits, bounded_by_reply, cut
from shoal.settings import GatewaySettings
from shoal.telemetry import log
from shoal.telemetry.metrics import GatewayMetrics
from shoal.values import GenerateParams
from shoal.wire.queue import GatewayPulse, Piece, Reply

OnGone = Callable[[], None]

_log = log.get(__name__)

#: How often units that the broker did not take are tried again.
RESUME_EVERY_S = 0.1


class Inflight:
    """All requests of one gateway process, from admission to the last ack."""

    def __init__(
        self,
        gateway: str,
        settings: GatewaySettings,
        broker: Broker,
        fleet: Fleet,
        metrics: GatewayMetrics,
    ) -> None:
        self._settings = settings
        self._fleet = fleet
        self._metrics = metrics
        self._outbox = Outbox(gateway, settings.pool, broker, self._on_sent)
        self._machine = Admission(
            settings.window_batches,
            settings.max_queue_s,
            settings.max_bulk_s,
            settings.worker_wait_s,
        )
        self._joiner = PartJoiner()
        self.uploads = Uploads(settings, broker.max_payload, metrics, self._handle)
        self._calls = Calls()
        self._cards: dict[str, Card] = {}
        self._resume: asyncio.TimerHandle | None = None
        self.announce: Callable[[], None] = lambda: None

    @property
    def requests(self) -> int:
        return len(self._calls)

    @property
    def units(self) -> int:
        """Units that nobody answered yet."""
        return self._machine.units

    def queue_fault(self) -> str | None:
        """Why the broker did not take the latest unit; None if it did, or that is long ago."""
        return self._outbox.fault()

    async def idle(self) -> None:
        """Return when no request waits."""
        await self._calls.idle()

    def stop(self) -> None:
        """Tell the callers of all requests that this gateway ends; what comes now is told so too."""
        self._handle(ev.Stopped())

    def outstanding(self) -> ev.Outstanding:
        """What there is to tell of what waits."""
        return self._machine.outstanding()

    def peer_heard(self, pulse: GatewayPulse) -> None:
        """Another gateway of this pool told what waits there."""
        told = ev.Outstanding(
            pulse.outstanding_s,
            pulse.queued_s,
            pulse.requests,
            pulse.bulk_s,
            pulse.waiting_s,
            pulse.bulk_waiting_s,
        )
        self._handle(ev.PeerHeard(pulse.gateway, told))

    async def ask(self, job: Job, when_gone: Callable[[OnGone], None]) -> list[Answer]:
        """The answers to `job`'s units, in the order of its items.

        `when_gone`: has something called when the caller has closed the connection, or at once.

        Raises:
            Unavailable: the broker is away, or a large item cannot be uploaded.
            PayloadTooLarge: an item is too large for the queue, and there is no payload store.
            Overloaded, ModelLoadFailed, DeadlineExceeded, RequestCancelled: as named.
        """
        with self._asked(job, when_gone) as call:
            await call.done
        return [call.answers[unit] for unit in call.spans]

    @contextmanager
    def stream(self, job: Job, when_gone: Callable[[OnGone], None]) -> Iterator[Feed]:
        """What comes of `job`'s items, as it comes; left early, the request is called off.

        Raises as `ask`, here or in `Feed.next`.
        """
        feed = Feed(len(job.items), self._settings.max_stream_bytes)
        with self._asked(job, when_gone, feed) as call:
            call.done.add_done_callback(partial(_told_of_failure, feed))
            yield feed

    @contextmanager
    def _asked(
        self, job: Job, when_gone: Callable[[OnGone], None], feed: Feed | None = None
    ) -> Iterator[Call]:
        if not self._outbox.connected:
            raise Unavailable("the queue is not reachable: try again", retry_after_s=1.0)
        call = self._open(job, feed)
        try:
            self._handle(self._arrival(call))
            self._watch(call, when_gone)
            self.uploads.begin(call)
            yield call
        finally:
            self._close(call)

    def _open(self, job: Job, feed: Feed | None) -> Call:
        settings = self._settings
        rate = self._fleet.rate(job.card)
        # A text of its own is soonest answered by whichever worker has a place for it.
        most_items = 1 if isinstance(job.params, GenerateParams) else settings.unit_items
        limits = UnitLimits(most_items, settings.unit_bytes, rate.batch_s)
        limits = bounded_by_reply(limits, job.answer)
        spans = cut(job.items, limits, rate, job.reading)
        units = {f"{job.key}.{number}": span for number, span in enumerate(spans)}
        call = Call(job, units, asyncio.get_running_loop().time() + job.timeout_s, feed)
        call.payloads = self.uploads.of(job)
        self._calls.add(call)
        self._cards[job.card.name] = job.card
        return call

    def _arrival(self, call: Call) -> ev.Arrived:
        job = call.job
        sizes = tuple(ev.UnitSize(unit, *span.size) for unit, span in call.spans.items())
        rate, standing = self._fleet.rate(job.card), job.standing
        return ev.Arrived(
            job.key,
            job.card.name,
            sizes,
            rate,
            standing.tenant,
            standing.priority,
            standing.klass,
        )

    def _close(self, call: Call) -> None:
        if call.done.cancel() or call.done.cancelled():
            self._handle(ev.ClientGone(call.job.key))
        self._calls.remove(call)
        self.uploads.end(call)
        if call.timer is not None:
            call.timer.cancel()
        if len(call.answers) < len(call.spans):
            self._joiner.forget(list(call.spans))

    # --- time and callers -----------------------------------------------------------------------

    def _watch(self, call: Call, when_gone: Callable[[OnGone], None]) -> None:
        key, handle = call.job.key, self._handle
        loop = asyncio.get_running_loop()
        call.timer = loop.call_at(call.deadline, handle, ev.DeadlinePassed(key))
        when_gone(partial(handle, ev.ClientGone(key)))  # once it is over that changes nothing

    # --- what comes in ----------------------------------------------------------------------------

    def on_reply(self, data: bytes, reply: str, status: str | None, subject: str) -> None:
        """A message on this gateway's reply subject."""
        try:
            message = self._joiner.read(data)
            if isinstance(message, Piece):
                self._on_piece(message)
        except ProtocolError:
            self._metrics.error(ProtocolError.code)
            return
        if isinstance(message, Reply):
            self._perform(self._decide(ev.Replied(message.unit, message.ack, reply)), message)

    def _on_piece(self, piece: Piece) -> None:
        """Raises `ProtocolError`. Nobody waits for it any more, or for pieces at all: that is fine."""
        call = self._calls.of(piece.unit)
        if call is None or call.feed is None or piece.unit not in call.spans:
            return
        span = call.spans[piece.unit]
        if not 0 <= piece.item < span.items:
            raise ProtocolError(f"a piece is of item {piece.item} of a unit of {span.items}")
        try:
            call.feed.add(span.start + piece.item, piece)
        except ReaderTooSlow:
            self._handle(ev.ClientGone(call.job.key))

    def listening(self) -> None:
        """The gateway hears its fleet from now on."""
        self._handle(ev.Listening())

    def reconnected(self) -> None:
        """Sequences say nothing any more: the broker may have lost its disk, and counts anew."""
        for call in self._calls:
            call.sequences.clear()
        self.listening()

    def fleet_changed(self) -> None:
        """It heard a pulse, or forgot a worker."""
        self._handle(ev.WorkersCounted(self._fleet.working))
        for model in self._machine.models:
            self._handle(ev.Rated(model, self._fleet.rate(self._cards[model])))

    def _on_sent(self, event: ev.Event) -> None:
        """The broker refused a unit or was away."""
        self._handle(event)
        if self._machine.unsent and self._resume is None:
            loop = asyncio.get_running_loop()
            self._resume = loop.call_later(RESUME_EVERY_S, self._try_resume)

    def _try_resume(self) -> None:
        self._resume = None
        if self._outbox.connected:
            self._handle(ev.Resumed())
        elif self._machine.unsent:
            loop = asyncio.get_running_loop()
            self._resume = loop.call_later(RESUME_EVERY_S, self._try_resume)

    # --- what goes out ----------------------------------------------------------------------------

    def _handle(self, event: ev.Event) -> None:
        self._perform(self._decide(event))

    def _decide(self, event: ev.Event) -> list[ev.Instruction]:
        return self._machine.handle(event, asyncio.get_running_loop().time())

    def _perform(self, instructions: list[ev.Instruction], reply: Reply | None = None) -> None:
        for instruction in instructions:
            match instruction:
                case ev.Publish():
                    self._publish(instruction.unit)
                case ev.Keep():
                    assert reply is not None, "an answer came, and is kept"
                    self._calls.keep(instruction.unit, reply)
                case ev.Ack():
                    self._outbox.ack(instruction.ack, instruction.inbox)
                case ev.Complete():
                    self._calls.finish(instruction.request, None)
                case ev.Fail():
                    self._calls.finish(instruction.request, instruction.error)
                case ev.Discard():
                    if instruction.duplicate:
                        self._metrics.duplicate_reply()
                        _log.event("duplicate_reply", unit=instruction.unit)
                case ev.Cancel():
                    self._cancel(instruction.request)
                case ev.Announce():
                    self.announce()
                case _ as never:
                    assert_never(never)

    def _publish(self, unit: str) -> None:
        call = self._calls.of(unit)
        if call is not None:
            self._outbox.publish(call, unit)

    def _cancel(self, request: str) -> None:
        call = self._calls.get(request)
        if call is not None:
            self._outbox.cancel(call)


def _told_of_failure(feed: Feed, done: asyncio.Future[None]) -> None:
    if not done.cancelled() and isinstance(error := done.exception(), ShoalError):
        feed.fail(error)
