"""What waits for one model in one class: its place in line, what of it may be on the queue.

Decides how much of a model's work is on the queue at a time (the release window), whose unit is
next to go there, and how long a new request would wait. It must not know how requests end.

The queue is first in, first out: what is on it comes before whatever arrives next. So it holds
about a batch and a half for each lane, enough that no lane waits, and what is more takes turns here
(`fairness`). One batch more is kept for the first units of requests that come while it is full,
half of it at most for one tenant: a short request that comes behind a long one goes to the queue
at once, and the workers' own turns bring it into the next batch.
"""

from __future__ import annotations

from collections import Counter

from shoal.core import admission_events as ev
from shoal.core.fairness import FairQueue, Place, sharers
from shoal.core.peers import Others
from shoal.core.tenants import SecondsByTenant, before_s, part_of

#: What a window holds beside its batches: the work of a lane while an answer, the release of the
#: next unit, its way through the broker and a pull take their time, 5 ms on a quiet machine. On a
#: crowded one with batches of 20 ms up to 12 % of the throughput was lost without it.
ROUND_TRIP_S = 0.03
#: Units for each lane that may be on the queue whatever they are predicted to cost: one that runs
#: and one that is next.
LEAST_UNITS = 2
#: Waiting work is never announced as nothing, whatever was predicted: a worker must see it.
LEAST_OUTSTANDING_S = 1e-3
#: The same where several gateways have work for the model.
LEAST_UNITS_SHARED = 1
#: Most of the room for early units that one tenant may take.
EARLY_TENANT_SHARE = 0.5


class Held:
    """A request that was taken. `seconds`: what each unit that is not answered is predicted to cost.

    Its `queued` units are on the queue or on their way there, of which the broker once did not take
    the `untaken`; the `early` one went there before its turn.
    """

    __slots__ = (
        "early",
        "id",
        "klass",
        "model",
        "place",
        "queued",
        "seconds",
        "tenant",
        "untaken",
    )

    def __init__(self, event: ev.Arrived) -> None:
        self.id = event.request
        self.model = event.model
        self.klass = event.klass
        self.tenant = event.tenant
        self.place = Place(sharers(event.tenant), event.priority, event.request)
        self.queued: set[str] = set()
        self.untaken: set[str] = set()
        self.early: str | None = None
        seconds = event.rate.seconds
        self.seconds = {u.id: seconds(u.bytes, u.items, u.new_tokens) for u in event.units}

    @property
    def waiting(self) -> int:
        """How many of its units are in the gateway."""
        return len(self.seconds) - len(self.queued)


class Backlog:
    """It lives while any request does. `window_batches`: what may be on the queue, for each lane."""

    def __init__(self, rate: ev.Rate, window_batches: float) -> None:
        self.rate = rate
        self.requests: dict[str, Held] = {}
        self.seconds = 0.0
        self.queued_s = 0.0
        self.waiting = SecondsByTenant()
        self._window_batches = window_batches
        self._queued = 0
        self._told_s = 0.0
        self._line = FairQueue[tuple[Held, str]]()
        self._requests_of: Counter[str] = Counter()
        self._early = SecondsByTenant()

    @property
    def lanes(self) -> int:
        """Lanes that share the work; a model that nobody has yet will have one."""
        return max(1, self.rate.lanes)

    def take(self, request: Held, others: Others) -> list[str]:
        """Hold a request; the units of it that go to the queue at once, as nobody is before them."""
        self.requests[request.id] = request
        self._requests_of[request.tenant] += 1
        self.seconds += sum(request.seconds.values())
        room_s = self._room_s(others, request)
        released = []
        for unit, seconds in request.seconds.items():
            has_room = not self._line and self._has_room(seconds, room_s, others)
            if has_room or self._goes_early(request, unit, seconds, others):
                self._enqueue(request, unit)
                released.append(unit)
            else:
                self._line.add(request.place, [(request, unit)])
                self.waiting.add(request.tenant, seconds)
        return released

    def release(self, others: Others) -> list[str]:
        """The units whose turn it is to go to the queue, as far as there is room."""
        if not self._line:
            return []
        room_s = self._room_s(others)

        def goes(entry: tuple[Held, str]) -> float | None:
            request, unit = entry
            seconds = request.seconds[unit]
            if not self._has_room(seconds, room_s, others):
                return None
            self.waiting.remove(request.tenant, seconds)
            self._enqueue(request, unit)
            return seconds

        return [unit for _, unit in self._line.take(goes)]

    def answered(self, request: Held, unit: str) -> None:
        """A unit on the queue needs nothing more."""
        self._dequeue(request, unit)
        del request.seconds[unit]
        request.queued.discard(unit)
        request.untaken.discard(unit)

    def forget(self, request: Held) -> None:
        """Nothing of `request` is wanted any more."""
        if request.waiting:
            self._line.remove(request.place)
        for unit, seconds in request.seconds.items():
            if unit in request.queued:
                self._dequeue(request, unit)
            else:
                self.seconds -= seconds
                self.waiting.remove(request.tenant, seconds)
        del self.requests[request.id]
        self._requests_of[request.tenant] -= 1
        if not self._requests_of[request.tenant]:
            del self._requests_of[request.tenant]

    def _enqueue(self, request: Held, unit: str) -> None:
        request.queued.add(unit)
        self.queued_s += request.seconds[unit]
        self._queued += 1

    def _dequeue(self, request: Held, unit: str) -> None:
        seconds = request.seconds[unit]
        self.seconds -= seconds
        self._queued -= 1
        # Sums of what was added and taken drift; nothing is nothing.
        self.queued_s = self.queued_s - seconds if self._queued else 0.0
        if unit == request.early:
            self._early.remove(request.tenant, seconds)

    def has_grown(self, step_s: float) -> bool:
        """Whether there is any work for the first time, or a step more than when it last had."""
        grown = not self._told_s or self.seconds - self._told_s >= step_s
        if grown or self.seconds < self._told_s:
            self._told_s = max(self.seconds, LEAST_OUTSTANDING_S)
        return grown

    # --- how much and how long ----------------------------------------------------------------------

    def _room_s(self, others: Others, coming: Held | None = None) -> float:
        """Predicted seconds that this gateway may have on the queue.

        All gateways share the window: each has its part of it for sure, and what the others leave.
        Of gateways with work that waits the part is by the tenants that wait there.
        """
        window_s = (self._window_batches * self.rate.batch_s + ROUND_TRIP_S) * self.lanes
        if not others.gateways:
            return window_s
        part = 1 / (1 + others.gateways)
        if others.waiting_s:
            own_s = dict(self.waiting.with_others({}))
            if coming is not None:
                seconds = sum(coming.seconds.values())
                own_s[coming.tenant] = own_s.get(coming.tenant, 0.0) + seconds
            part = part_of(own_s, others.waiting_s)
        return max(window_s * part, window_s - others.queued_s)

    def _has_room(self, seconds: float, room_s: float, others: Others) -> bool:
        """Whether so much more may be on the queue."""
        least_units = LEAST_UNITS_SHARED if others.gateways else LEAST_UNITS
        return self._queued < least_units * self.lanes or self.queued_s + seconds <= room_s

    def _goes_early(self, request: Held, unit: str, seconds: float, others: Others) -> bool:
        """Whether this unit may go to the queue although that is full; if so it is remembered."""
        if request.klass == "bulk" or unit != next(iter(request.seconds)):
            return False
        room_s = self.rate.batch_s * self.lanes / (1 + others.gateways)
        own_s = self._early.of(request.tenant) + seconds
        if own_s > EARLY_TENANT_SHARE * room_s or self._early.total + seconds > room_s:
            return False
        request.early = unit
        self._early.add(request.tenant, seconds)
        return True

    def ahead_s(self, tenant: str, cost_s: float, others: Others) -> float:
        """Predicted seconds that are served before a new request of this cost has its answer.

        What is on the queue comes first; what waits takes turns.
        """
        waiting_s = self.waiting.with_others(others.waiting_s)
        requests = self._requests_of[tenant] + others.requests
        turns_s = before_s(waiting_s, tenant, cost_s, requests) if waiting_s else 0.0
        return self.queued_s + others.queued_s + turns_s
