"""Admission and settling of requests: the gateway's decisions, as a state machine.

Decides whether a request is taken (once, for all of it, in predicted seconds, over all gateways),
what a second answer means, and what becomes of a request whose caller is gone or whose time is up.
`backlog` decides which of its units go to the queue and when. Events come in, instructions go out;
the shell performs them in order. It must not know HTTP, NATS, clocks, or what an answer holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never, get_args

from shoal.core import admission_events as ev
from shoal.core.absence import Absence
from shoal.core.backlog import LEAST_OUTSTANDING_S, Backlog, Held
from shoal.core.cooldowns import load_error
from shoal.core.lateness import why_late
from shoal.core.peers import Peers
from shoal.core.recent import Recent
from shoal.errors import (
    DeadlineExceeded,
    ModelLoadFailed,
    Overloaded,
    RequestCancelled,
    ShoalError,
    ShuttingDown,
)
from shoal.values import TrafficClass

CLASSES: tuple[TrafficClass, ...] = get_args(TrafficClass)
#: A request of any cost finds a place while less than this share of the limit is taken.
LARGE_SHARE = 0.5
#: Share of the limit by which a model's work may grow before the other gateways are told: they
#: admit against what they know, and between pulses each could take in as much as all may.
ANNOUNCE_SHARE = 1 / 8
#: Tenants that a pulse tells by name, for each model: 64 are some 2 kB; and for all models
#: together: a pulse goes to every gateway and worker four times a second.
TENANTS_TOLD = 64
TENANTS_TOLD_IN_ALL = 2048
#: Seconds for which a second answer is still told from one that was never asked for. Longer than
#: any worker goes on resending.
SETTLED_FOR_S = 300.0
#: Most units remembered for that; about 10 MB.
SETTLED_MOST = 50_000


class Admission:
    """All requests of one gateway.

    `window_batches`: a model's predicted work on the queue, in batches for each resident lane.
    `max_queue_s`, `max_bulk_s`: predicted seconds for each resident lane before the answer of an
    interactive or a bulk request, above which it is refused; but for as many as the window holds.
    Full batches of texts that are generated take longer, the more so while a token's cost was learnt
    of one alone (torch: three times its share of eight), and places would stay free.
    `worker_wait_s`: for how long requests are taken in while no worker lives.
    """

    def __init__(
        self,
        window_batches: float,
        max_queue_s: float,
        max_bulk_s: float = 600.0,
        worker_wait_s: float = 30.0,
    ) -> None:
        self._window_batches = window_batches
        self._limit_s = {"work": max_queue_s, "bulk": max_bulk_s}
        self._requests: dict[str, Held] = {}
        self._backlogs: dict[tuple[str, TrafficClass], Backlog] = {}
        self._request_of: dict[str, Held] = {}
        self._unsent: dict[str, None] = {}
        self._settled = Recent(SETTLED_FOR_S, SETTLED_MOST)
        self._peers = Peers()
        self._absence = Absence(worker_wait_s)
        self._stopped = False

    @property
    def unsent(self) -> bool:
        """Whether units wait for `Resumed`."""
        return bool(self._unsent)

    @property
    def units(self) -> int:
        """Units that are not answered yet, on the queue or in the gateway."""
        return len(self._request_of)

    @property
    def models(self) -> set[str]:
        """Models that any request waits for."""
        return {model for model, _ in self._backlogs}

    def outstanding(self) -> ev.Outstanding:
        """What there is to tell; no model's seconds are zero while it has any work."""
        work = {m: b for (m, klass), b in self._backlogs.items() if klass == "work"}
        bulk = {m: b for (m, klass), b in self._backlogs.items() if klass == "bulk"}
        return ev.Outstanding(
            {model: max(b.seconds, LEAST_OUTSTANDING_S) for model, b in work.items()},
            {model: max(0.0, b.queued_s) for model, b in work.items()},  # sums drift
            {model: len(b.requests) for model, b in work.items()},
            {model: max(b.seconds, LEAST_OUTSTANDING_S) for model, b in bulk.items()},
            _told(work),
            _told(bulk),
        )

    def handle(self, event: ev.Event, now: float) -> list[ev.Instruction]:
        """The only way in. `now`: seconds on any clock that never goes back."""
        self._peers.forget_silent(now)
        match event:
            case ev.Replied():
                return self._replied(event, now)
            case ev.Arrived():
                return self._arrived(event, now)
            case ev.PublishRefused():
                return self._end_of(event.unit, event.error, now)
            case ev.PublishFailed():
                self._publish_failed(event.unit)
                return []
            case ev.Resumed():
                units, self._unsent = list(self._unsent), {}
                return [ev.Publish(unit) for unit in units]
            case ev.Rated():
                return self._rated(event, now)
            case ev.PeerHeard():
                return self._peer_heard(event, now)
            case ev.Listening():
                self._absence.listening(now)
                return []
            case ev.WorkersCounted():
                self._absence.counted(event.workers, now)
                return []
            case ev.Stopped():
                self._stopped = True
                return self._fail(list(self._requests.values()), ShuttingDown(), now)
            case ev.ClientGone():
                return self._gone(event.request, now)
            case ev.DeadlinePassed():
                return self._expired(event.request, now)
            case _ as never:
                assert_never(never)

    # --- taking a request in ------------------------------------------------------------------

    def _arrived(self, event: ev.Arrived, now: float) -> list[ev.Instruction]:
        request = Held(event)
        refusal = self._refusal(event, sum(request.seconds.values()), now)
        if refusal is not None:
            return [ev.Fail(event.request, refusal)]
        key = (request.model, request.klass)
        backlog = self._backlogs.get(key)
        if backlog is None:
            backlog = self._backlogs[key] = Backlog(event.rate, self._window_batches)
        backlog.rate = event.rate
        self._requests[request.id] = request
        self._request_of.update(dict.fromkeys(request.seconds, request))
        released = _published(backlog.take(request, self._peers.of(*key)))
        step_s = ANNOUNCE_SHARE * self._limit_s[request.klass] * backlog.lanes
        if backlog.has_grown(step_s):
            released.append(ev.Announce(event.model))
        return released

    def _refusal(self, event: ev.Arrived, cost_s: float, now: float) -> ShoalError | None:
        if self._stopped:
            return ShuttingDown()
        if (nobody := self._absence.refusal(now)) is not None:
            return nobody
        if event.rate.failed is not None:
            return _load_failed(event.model, event.rate.failed, event.rate, now)
        key = (event.model, event.klass)
        backlog, others = self._backlogs.get(key), self._peers.of(*key)
        if backlog is None:
            if not others.gateways:
                return None
            backlog = Backlog(event.rate, self._window_batches)
        limit_s = max(self._limit_s[event.klass], self._window_batches * event.rate.batch_s)
        lanes = max(1, event.rate.lanes)
        ahead_s = backlog.ahead_s(event.tenant, cost_s, others) / lanes
        own_s = min(cost_s / lanes, LARGE_SHARE * limit_s)
        excess_s = ahead_s + own_s - limit_s
        if excess_s <= 0:
            return None
        kind = "bulk " if event.klass == "bulk" else ""
        return Overloaded(
            f"about {ahead_s:.1f} s of {kind}work per device come before this request for "
            f"'{event.model}'; the limit is {limit_s:g} s: try again later",
            retry_after_s=excess_s,
        )

    def _publish_failed(self, unit: str) -> None:
        request = self._request_of.get(unit)
        if request is not None:
            self._unsent[unit] = None
            request.untaken.add(unit)

    # --- making room ------------------------------------------------------------------------------

    def _release(self, model: str, klass: TrafficClass) -> list[ev.Instruction]:
        backlog = self._backlogs.get((model, klass))
        if backlog is None:
            return []
        return _published(backlog.release(self._peers.of(model, klass)))

    def _peer_heard(self, event: ev.PeerHeard, now: float) -> list[ev.Instruction]:
        self._peers.heard(event.gateway, event.told, now)
        return _joined(self._release(*key) for key in self._backlogs)

    def _rated(self, event: ev.Rated, now: float) -> list[ev.Instruction]:
        out: list[ev.Instruction] = []
        for klass in CLASSES:
            backlog = self._backlogs.get((event.model, klass))
            if backlog is None:
                continue
            backlog.rate = event.rate
            if event.rate.failed is not None:
                error = _load_failed(event.model, event.rate.failed, event.rate, now)
                out += self._fail(list(backlog.requests.values()), error, now)
            out += self._release(event.model, klass)
        return out

    # --- settling -----------------------------------------------------------------------------

    def _replied(self, event: ev.Replied, now: float) -> list[ev.Instruction]:
        ack = ev.Ack(event.ack, event.inbox)
        request = self._request_of.pop(event.unit, None)
        if request is None:
            return [ev.Discard(event.unit, self._settled.knows(event.unit, now)), ack]
        self._unsent.pop(event.unit, None)
        self._settled.add(event.unit, now)
        self._backlogs[request.model, request.klass].answered(request, event.unit)
        out: list[ev.Instruction] = [ev.Keep(event.unit), ack]
        if not request.seconds:
            out.append(ev.Complete(request.id))
            self._forget(request)
        return [*out, *self._release(request.model, request.klass)]

    def _forget(self, request: Held) -> None:
        del self._requests[request.id]
        backlog = self._backlogs[request.model, request.klass]
        backlog.forget(request)
        if not backlog.requests:
            del self._backlogs[request.model, request.klass]

    # --- ending a request early -----------------------------------------------------------------

    def _end(self, request: Held, error: ShoalError, now: float) -> list[ev.Instruction]:
        failed = self._fail([request], error, now)
        return [*failed, *self._release(request.model, request.klass)]

    def _fail(self, requests: list[Held], error: ShoalError, now: float) -> list[ev.Instruction]:
        return _joined([ev.Fail(r.id, error), *self._drop(r, now)] for r in requests)

    def _drop(self, request: Held, now: float) -> list[ev.Instruction]:
        for unit in request.seconds:
            del self._request_of[unit]
            self._unsent.pop(unit, None)
            if unit in request.queued:
                self._settled.add(unit, now)
        self._forget(request)
        return [ev.Cancel(request.id)] if request.queued else []

    def _end_of(self, unit: str, error: ShoalError, now: float) -> list[ev.Instruction]:
        request = self._request_of.get(unit)
        if request is None:
            return []
        return self._end(request, error, now)

    def _gone(self, request_id: str, now: float) -> list[ev.Instruction]:
        request = self._requests.get(request_id)
        if request is None:
            return []
        return self._end(request, RequestCancelled("the client closed the connection"), now)

    def _expired(self, request_id: str, now: float) -> list[ev.Instruction]:
        request = self._requests.get(request_id)
        if request is None:
            return []
        error = DeadlineExceeded(
            f"the deadline passed with {len(request.seconds)} unit(s) unanswered: "
            f"{why_late(request, self._backlogs[request.model, request.klass].rate)}"
        )
        return self._end(request, error, now)


def _load_failed(model: str, reason: str, rate: ev.Rate, now: float) -> ModelLoadFailed:
    return load_error(model, reason, rate.again_at - now, unserved=rate.unserved)


def _joined(parts: Iterable[list[ev.Instruction]]) -> list[ev.Instruction]:
    return [instruction for part in parts for instruction in part]


def _published(units: list[str]) -> list[ev.Instruction]:
    return [ev.Publish(unit) for unit in units]


def _told(backlogs: dict[str, Backlog]) -> dict[str, dict[str, float]]:
    most = max(1, min(TENANTS_TOLD, TENANTS_TOLD_IN_ALL // max(1, len(backlogs))))
    told = {model: b.waiting.largest(most) for model, b in backlogs.items()}
    return {model: waiting_s for model, waiting_s in told.items() if waiting_s}
