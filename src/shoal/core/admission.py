"""Admission, release and settling of requests: the gateway's decisions, as a state machine.

Decides whether a request is taken (once, for all of it, in predicted seconds), how many of its
units sit on the queue at a time, what a second answer means, and what becomes of a request whose
caller is gone or whose time is up. Events come in, instructions go out; the shell performs them
in order. It must not know HTTP, NATS, clocks, or what an answer holds.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import assert_never

from shoal.core import admission_events as ev
from shoal.errors import DeadlineExceeded, ModelLoadFailed, Overloaded, RequestCancelled, ShoalError

#: Seconds for which a second answer is still told from one that was never asked for. Longer than
#: any worker goes on resending.
SETTLED_FOR_S = 300.0
#: Most settled units remembered; about 10 MB.
SETTLED_MOST = 50_000
#: A request of any cost finds a place while less than this share of the limit is taken.
LARGE_SHARE = 0.5
#: Waiting work is never announced as nothing, whatever was predicted: a worker must see it.
LEAST_OUTSTANDING_S = 1e-3


class _Request:
    """`waiting` units are in the gateway, `queued` ones on the queue or on their way there.

    Of the `queued` ones the broker once did not take the `untaken`.
    """

    __slots__ = ("id", "model", "queued", "seconds", "tenant", "untaken", "waiting")

    def __init__(self, event: ev.Arrived) -> None:
        self.id = event.request
        self.model = event.model
        self.tenant = event.tenant
        self.waiting = deque(unit.id for unit in event.units)
        self.queued: set[str] = set()
        self.untaken: set[str] = set()
        self.seconds = {unit.id: event.rate.seconds(unit.bytes, unit.items) for unit in event.units}


class _Backlog:
    """What waits for one model, in all and on the queue. It lives while any request does."""

    __slots__ = ("queued_s", "rate", "requests", "seconds")

    def __init__(self, rate: ev.Rate) -> None:
        self.rate = rate
        self.requests: dict[str, _Request] = {}
        self.seconds = 0.0
        self.queued_s = 0.0

    def ahead_s(self, cost_s: float) -> float:
        """Predicted seconds that are served before a new request of this cost has its answer.

        What is on the queue comes first. After that requests take turns, so that each of the
        others gets at most about as much as the new one: a small request does not wait for the
        whole of a large one.
        """
        return min(self.seconds, self.queued_s + len(self.requests) * cost_s)


class Admission:
    """All requests of one gateway.

    `window_units`: units of one request on the queue per resident lane.
    `max_queue_s`: predicted seconds per resident lane above which requests are refused.
    """

    def __init__(self, window_units: int, max_queue_s: float) -> None:
        self._window_units = window_units
        self._max_queue_s = max_queue_s
        self._requests: dict[str, _Request] = {}
        self._backlogs: dict[str, _Backlog] = {}
        self._request_of: dict[str, _Request] = {}
        self._unsent: dict[str, None] = {}
        # Not a dict: its first key is behind all the places of those deleted before.
        self._settled: OrderedDict[str, float] = OrderedDict()

    @property
    def unsent(self) -> bool:
        """Whether units wait for `Resumed`."""
        return bool(self._unsent)

    @property
    def units(self) -> int:
        """Units that are not answered yet, on the queue or in the gateway."""
        return len(self._request_of)

    def outstanding_s(self) -> dict[str, float]:
        """Predicted seconds that wait, by model; never zero for a model that has any."""
        return {
            model: max(backlog.seconds, LEAST_OUTSTANDING_S)
            for model, backlog in self._backlogs.items()
        }

    def handle(self, event: ev.Event, now: float) -> list[ev.Instruction]:
        """The only way in. `now`: seconds on any clock that never goes back."""
        match event:
            case ev.Replied():
                return self._replied(event, now)
            case ev.Arrived():
                return self._arrived(event)
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
            case ev.ClientGone():
                return self._gone(event.request, now)
            case ev.DeadlinePassed():
                return self._expired(event.request, now)
            case _ as never:
                assert_never(never)

    # --- taking a request in ------------------------------------------------------------------

    def _arrived(self, event: ev.Arrived) -> list[ev.Instruction]:
        request = _Request(event)
        cost_s = sum(request.seconds.values())
        refusal = self._refusal(event.model, event.rate, cost_s)
        if refusal is not None:
            return [ev.Fail(event.request, refusal)]
        backlog = self._backlogs.get(event.model)
        first = backlog is None
        if backlog is None:
            backlog = self._backlogs[event.model] = _Backlog(event.rate)
        backlog.rate = event.rate
        backlog.seconds += cost_s
        backlog.requests[request.id] = request
        self._requests[request.id] = request
        self._request_of.update(dict.fromkeys(request.seconds, request))
        released = self._release(request, backlog)
        return [*released, ev.Announce(event.model)] if first else released

    def _refusal(self, model: str, rate: ev.Rate, cost_s: float) -> ShoalError | None:
        if rate.failed is not None:
            return _load_failed(model, rate.failed)
        backlog = self._backlogs.get(model)
        if backlog is None:
            return None
        lanes = max(1, rate.lanes)
        ahead_s = backlog.ahead_s(cost_s) / lanes
        own_s = min(cost_s / lanes, LARGE_SHARE * self._max_queue_s)
        excess_s = ahead_s + own_s - self._max_queue_s
        if excess_s <= 0:
            return None
        return Overloaded(
            f"about {ahead_s:.1f} s of work per device come before this request for '{model}'; "
            f"the limit is {self._max_queue_s:g} s: try again later",
            retry_after_s=excess_s,
        )

    def _release(self, request: _Request, backlog: _Backlog) -> list[ev.Instruction]:
        window = self._window_units * max(1, backlog.rate.lanes)
        released: list[ev.Instruction] = []
        while request.waiting and len(request.queued) < window:
            unit = request.waiting.popleft()
            request.queued.add(unit)
            backlog.queued_s += request.seconds[unit]
            released.append(ev.Publish(unit))
        return released

    def _publish_failed(self, unit: str) -> None:
        request = self._request_of.get(unit)
        if request is not None:
            self._unsent[unit] = None
            request.untaken.add(unit)

    # --- settling -----------------------------------------------------------------------------

    def _replied(self, event: ev.Replied, now: float) -> list[ev.Instruction]:
        ack = ev.Ack(event.ack, event.inbox)
        request = self._request_of.pop(event.unit, None)
        if request is None:
            return [ev.Discard(event.unit, self._was_settled(event.unit, now)), ack]
        self._unsent.pop(event.unit, None)
        self._settle(event.unit, now)
        backlog = self._backlogs[request.model]
        seconds = request.seconds.pop(event.unit)
        backlog.seconds -= seconds
        backlog.queued_s -= seconds
        request.queued.discard(event.unit)
        request.untaken.discard(event.unit)
        if not request.seconds:
            self._forget(request)
            return [ev.Keep(event.unit), ack, ev.Complete(request.id)]
        return [ev.Keep(event.unit), ack, *self._release(request, backlog)]

    def _settle(self, unit: str, now: float) -> None:
        settled = self._settled
        settled[unit] = now
        while settled:
            oldest = next(iter(settled))
            if len(settled) <= SETTLED_MOST and settled[oldest] >= now - SETTLED_FOR_S:
                break
            settled.popitem(last=False)

    def _was_settled(self, unit: str, now: float) -> bool:
        return self._settled.get(unit, -SETTLED_FOR_S + now) > now - SETTLED_FOR_S

    def _forget(self, request: _Request) -> None:
        del self._requests[request.id]
        backlog = self._backlogs[request.model]
        del backlog.requests[request.id]
        if not backlog.requests:
            del self._backlogs[request.model]

    # --- ending a request early -----------------------------------------------------------------

    def _end(self, request: _Request, now: float) -> list[ev.Instruction]:
        on_queue = bool(request.queued)
        backlog = self._backlogs[request.model]
        for unit, seconds in request.seconds.items():
            backlog.seconds -= seconds
            del self._request_of[unit]
            self._unsent.pop(unit, None)
            if unit in request.queued:
                backlog.queued_s -= seconds
                self._settle(unit, now)
        self._forget(request)
        return [ev.Cancel(request.id)] if on_queue else []

    def _end_of(self, unit: str, error: ShoalError, now: float) -> list[ev.Instruction]:
        request = self._request_of.get(unit)
        if request is None:
            return []
        return [ev.Fail(request.id, error), *self._end(request, now)]

    def _gone(self, request_id: str, now: float) -> list[ev.Instruction]:
        request = self._requests.get(request_id)
        if request is None:
            return []
        error = RequestCancelled("the client closed the connection")
        return [ev.Fail(request.id, error), *self._end(request, now)]

    def _expired(self, request_id: str, now: float) -> list[ev.Instruction]:
        request = self._requests.get(request_id)
        if request is None:
            return []
        error = DeadlineExceeded(
            f"the deadline passed with {len(request.seconds)} unit(s) unanswered: "
            f"{_why_late(request, self._backlogs[request.model].rate)}"
        )
        return [ev.Fail(request.id, error), *self._end(request, now)]

    def _rated(self, event: ev.Rated, now: float) -> list[ev.Instruction]:
        backlog = self._backlogs.get(event.model)
        if backlog is None:
            return []
        backlog.rate = event.rate
        requests = list(backlog.requests.values())
        if event.rate.failed is not None:
            error = _load_failed(event.model, event.rate.failed)
            return _joined([ev.Fail(r.id, error), *self._end(r, now)] for r in requests)
        return _joined(self._release(request, backlog) for request in requests)


def _why_late(request: _Request, rate: ev.Rate) -> str:
    """What most likely held it up, and what to do about it."""
    if request.untaken:
        return (
            f"the broker was away or did not take {len(request.untaken)} of them; "
            f"if that goes on, look at its log and its disk"
        )
    if rate.lanes == 0:
        return (
            f"no worker has '{request.model}' loaded; if one is starting or loading it, "
            f"allow more time with X-Request-Timeout"
        )
    waiting = len(request.waiting)
    return (
        f"{waiting} of them not yet on the queue; allow more time with X-Request-Timeout, "
        f"or send less at once"
    )


def _load_failed(model: str, reason: str) -> ModelLoadFailed:
    return ModelLoadFailed(f"model '{model}' cannot be loaded: {reason}")


def _joined(parts: Iterable[list[ev.Instruction]]) -> list[ev.Instruction]:
    return [instruction for part in parts for instruction in part]
