"""Every history of a gateway's admission that hypothesis can think of.

A request is taken as a whole or refused as a whole, answered or failed once, and never keeps more on
the queue than the window holds; sums are what they should be, and at the end nothing is left.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from shoal.core import admission_events as ev
from shoal.core.admission import Admission
from shoal.core.backlog import LEAST_UNITS
from shoal.errors import PayloadTooLarge
from shoal.values import TrafficClass

WINDOW_BATCHES = 2.0
BATCH_S = 0.125
MAX_QUEUE_S = 4.0
#: A window may hold so much more than its batches, for the way there and back.
ROUND_TRIP_S = 0.05
PICK = st.integers(0, 30)
MODELS = st.sampled_from(["m", "n"])
LANES = st.sampled_from([1, 1, 2, 0])
SECONDS = st.sampled_from([2.0**-10, 2.0**-6, 2.0**-3, 1.0])
Key = tuple[str, TrafficClass]


@dataclass
class Request:
    """A request that was taken; `seconds`: of its units that have no answer."""

    key: Key
    seconds: dict[str, float]
    queued: set[str] = field(default_factory=set)
    kept: set[str] = field(default_factory=set)


def rate(seconds: float, lanes: int, failed: str | None = None) -> ev.Rate:
    return ev.Rate(0.0, seconds, lanes, failed, batch_s=BATCH_S)


class AdmissionMachine(RuleBasedStateMachine):
    """One gateway, its callers, the broker, workers that answer, and other gateways."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.admission = Admission(WINDOW_BATCHES, MAX_QUEUE_S)
        self.open: dict[str, Request] = {}
        self.ended: set[str] = set()
        self.lanes: dict[Key, int] = {}
        self.published: list[str] = []  # whatever was on the queue once
        self.untaken: set[str] = set()
        self.early: set[str] = set()
        self.peers = False

    def handle(self, event: ev.Event) -> list[ev.Instruction]:
        self.now += 0.001
        out = self.admission.handle(event, self.now)
        for instruction in out:
            self.perform(instruction)
        return out

    def perform(self, do: ev.Instruction) -> None:
        match do:
            case ev.Publish(unit):
                self.publish(unit)
            case ev.Keep(unit):
                request = self.request_of(unit)
                assert unit in request.queued and unit not in request.kept
                request.queued.remove(unit)
                request.kept.add(unit)
                del request.seconds[unit]
            case ev.Complete(name):
                assert not self.open[name].seconds, "complete without all its answers"
                self.end(name)
            case ev.Fail(name):
                if name in self.open:
                    self.end(name)
            case ev.Cancel(name):
                assert name in self.ended
            case ev.Discard(unit, duplicate):
                name = unit.rpartition(".")[0]
                assert name not in self.open or unit in self.open[name].kept
                assert duplicate == (unit in self.published), "a second answer is told from a stray"
            case ev.Ack() | ev.Announce():
                pass

    def publish(self, unit: str) -> None:
        request = self.request_of(unit)
        if unit in self.untaken:  # the broker was away: the same again
            self.untaken.remove(unit)
            return
        assert unit not in request.queued, f"{unit} published twice"
        self.keep_window(request, unit)
        request.queued.add(unit)
        self.published.append(unit)

    def keep_window(self, request: Request, unit: str) -> None:
        """Two units a lane, or two batches a lane; beyond them one batch of requests' first units."""
        queued = [(u, r.seconds[u]) for r in self.of(request.key) for u in r.queued]
        lanes, seconds = max(1, self.lanes[request.key]), request.seconds[unit]
        window_s = (WINDOW_BATCHES * BATCH_S + ROUND_TRIP_S) * lanes
        if len(queued) < LEAST_UNITS * lanes or sum(s for _, s in queued) + seconds <= window_s:
            return
        assert unit.endswith(".0") and request.key[1] == "work", "beyond the window"
        early_s = sum(s for u, s in queued if u in self.early)
        assert early_s + seconds <= BATCH_S * lanes + 1e-9, "too many before their turn"
        self.early.add(unit)

    def request_of(self, unit: str) -> Request:
        name = unit.rpartition(".")[0]
        assert name not in self.ended, f"{unit} of a request that has ended"
        return self.open[name]

    def end(self, name: str) -> None:
        assert name not in self.ended, f"{name} ended twice"
        self.untaken -= set(self.open.pop(name).seconds)
        self.ended.add(name)

    def of(self, key: Key) -> list[Request]:
        return [request for request in self.open.values() if request.key == key]

    # --- callers ----------------------------------------------------------------------------------

    @rule(
        model=MODELS,
        klass=st.sampled_from(["work", "work", "bulk"]),
        seconds=SECONDS,
        units=st.sampled_from([1, 1, 3, 40]),
        lanes=LANES,
        tenant=st.sampled_from(["a/", "a/x", "b/"]),
        priority=st.sampled_from([0, 0, 2]),
    )
    def arrive(
        self,
        model: str,
        klass: TrafficClass,
        seconds: float,
        units: int,
        lanes: int,
        tenant: str,
        priority: int,
    ) -> None:
        name = f"r{len(self.open) + len(self.ended)}"
        sizes = tuple(ev.UnitSize(f"{name}.{n}", 10, 1) for n in range(units))
        key = (model, klass)
        request = Request(key, {size.id: seconds for size in sizes})
        before, lanes_before = bool(self.of(key)), self.lanes.get(key, 0)
        self.open[name], self.lanes[key] = request, lanes
        out = self.handle(
            ev.Arrived(name, model, sizes, rate(seconds, lanes), tenant, priority, klass)
        )
        fails = [i for i in out if isinstance(i, ev.Fail)]
        if fails:
            assert out == fails and not request.queued, "refused as a whole, before any work"
            assert before or self.peers, "refused by an empty gateway"
            self.lanes[key] = lanes_before
        else:
            assert request.queued or len(self.of(key)) > 1, "nothing is before it"

    @precondition(lambda self: self.open)
    @rule(pick=PICK, late=st.booleans())
    def give_up(self, pick: int, late: bool) -> None:
        name = list(self.open)[pick % len(self.open)]
        queued = bool(self.open[name].queued)
        out = self.handle(ev.DeadlinePassed(name) if late else ev.ClientGone(name))
        assert name in self.ended
        assert [i for i in out if isinstance(i, ev.Cancel)] == [ev.Cancel(name)] * queued
        self.handle(ev.ClientGone(name))  # the other one may follow

    # --- the broker -------------------------------------------------------------------------------

    @precondition(lambda self: self.queued())
    @rule(pick=PICK)
    def broker_is_away(self, pick: int) -> None:
        unit = self.queued()[pick % len(self.queued())]
        assert self.handle(ev.PublishFailed(unit)) == []
        self.untaken.add(unit)
        assert self.admission.unsent

    @rule()
    def resume(self) -> None:
        self.handle(ev.Resumed())
        assert not self.untaken and not self.admission.unsent, "all that was not taken goes again"

    @precondition(lambda self: self.queued())
    @rule(pick=PICK)
    def broker_refuses(self, pick: int) -> None:
        unit = self.queued()[pick % len(self.queued())]
        self.handle(ev.PublishRefused(unit, PayloadTooLarge("as told")))
        assert unit.rpartition(".")[0] in self.ended

    # --- workers ----------------------------------------------------------------------------------

    @precondition(lambda self: self.queued())
    @rule(pick=PICK, times=st.sampled_from([1, 1, 5, 20]))
    def reply(self, pick: int, times: int) -> None:
        for _ in range(times):
            if queued := self.queued():
                self.replied(queued[pick % len(queued)])

    @precondition(lambda self: self.published)
    @rule(pick=PICK)
    def reply_again(self, pick: int) -> None:
        self.replied(self.published[-1 - pick % len(self.published)])

    @rule()
    def stray_reply(self) -> None:
        self.replied("nobody.0")

    def replied(self, unit: str) -> None:
        self.untaken.discard(unit)
        out = self.handle(ev.Replied(unit, "ack", "inbox"))
        assert out.count(ev.Ack("ack", "inbox")) == 1, "every answer is acked, once"
        first = out[0]
        assert isinstance(first, ev.Keep | ev.Discard) and first.unit == unit

    @rule(model=MODELS, seconds=SECONDS, lanes=LANES, fails=st.sampled_from([False] * 5 + [True]))
    def rated(self, model: str, seconds: float, lanes: int, fails: bool) -> None:
        for key in self.lanes:
            if key[0] == model:
                self.lanes[key] = lanes
        self.handle(ev.Rated(model, rate(seconds, lanes, "broken" if fails else None)))
        assert not fails or all(request.key[0] != model for request in self.open.values())

    @rule(
        gateway=st.sampled_from(["g1", "g2"]),
        model=MODELS,
        seconds=st.sampled_from([0.0, 0.1, 3.0]),
        bulk_s=st.sampled_from([0.0, 3.0]),
    )
    def peer_pulses(self, gateway: str, model: str, seconds: float, bulk_s: float) -> None:
        self.peers = True
        waiting = {"a/": seconds / 2} if seconds else {}
        self.handle(
            ev.PeerHeard(
                gateway,
                ev.Outstanding(
                    {model: seconds} if seconds else {},
                    {model: seconds / 2} if seconds else {},
                    {model: 1} if seconds else {},
                    {model: bulk_s} if bulk_s else {},
                    {model: waiting},
                ),
            )
        )

    @rule(seconds=st.sampled_from([0.1, 10.0, 1000.0]))
    def wait(self, seconds: float) -> None:
        """Long enough to be told of others anew, to take them for gone, to forget what was settled."""
        self.now += seconds
        if seconds > 300:
            self.published = self.queued()

    # --- always -----------------------------------------------------------------------------------

    def queued(self) -> list[str]:
        return [unit for request in self.open.values() for unit in sorted(request.queued)]

    @invariant()
    def sums_are_right(self) -> None:
        told = self.admission.outstanding()
        assert self.admission.units == sum(len(r.seconds) for r in self.open.values())
        for klass, seconds in (("work", told.outstanding_s), ("bulk", told.bulk_s)):
            requests = [r for r in self.open.values() if r.key[1] == klass]
            assert set(seconds) == {r.key[0] for r in requests}
            for model, value in seconds.items():
                real = sum(sum(r.seconds.values()) for r in requests if r.key[0] == model)
                assert value == pytest.approx(max(real, 1e-3), abs=1e-6)
        for model, queued_s in told.queued_s.items():
            real = sum(r.seconds[u] for r in self.of((model, "work")) for u in r.queued)
            assert queued_s == pytest.approx(real, abs=1e-6)
            assert told.requests[model] == len(self.of((model, "work")))

    @invariant()
    def something_is_on_its_way(self) -> None:
        for key in {request.key for request in self.open.values()}:
            assert any(request.queued for request in self.of(key)), "waits for nothing"

    def teardown(self) -> None:
        """Workers answer all there is: then nobody waits and nothing is held."""
        rounds = sum(len(request.seconds) for request in self.open.values())
        for _ in range(rounds):
            if queued := self.queued():
                self.replied(queued[0])
        assert not self.open
        assert (self.admission.units, self.admission.unsent) == (0, False)
        assert not self.admission.outstanding()


TestAdmission = AdmissionMachine.TestCase
