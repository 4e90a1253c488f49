"""Events in, exact instructions out; then random histories with invariants after every step."""

from __future__ import annotations

from collections import Counter
from typing import TypeGuard

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.core import admission_events as ev
from shoal.core.admission import SETTLED_FOR_S, Admission
from shoal.core.backlog import LEAST_OUTSTANDING_S
from shoal.errors import (
    DeadlineExceeded,
    ModelLoadFailed,
    Overloaded,
    RequestCancelled,
    ShoalError,
    ShuttingDown,
)
from shoal.values import TrafficClass

ONE_SECOND_AN_ITEM = ev.Rate(seconds_per_byte=0.0, seconds_per_item=1.0, lanes=1, batch_s=1.0)


def machine(window_batches: float = 2, max_queue_s: float = 10.0) -> Admission:
    return Admission(window_batches, max_queue_s)


def arrived(
    request: str,
    units: int = 1,
    model: str = "m",
    rate: ev.Rate = ONE_SECOND_AN_ITEM,
    items: int = 1,
    tenant: str = "",
    priority: int = 0,
    klass: TrafficClass = "work",
) -> ev.Arrived:
    sizes = tuple(ev.UnitSize(f"{request}.{n}", 10, items) for n in range(units))
    return ev.Arrived(request, model, sizes, rate, tenant, priority, klass)


def replied(unit: str) -> ev.Replied:
    return ev.Replied(unit, f"ack-{unit}", f"inbox-{unit}")


def acked(unit: str) -> ev.Ack:
    return ev.Ack(f"ack-{unit}", f"inbox-{unit}")


def taken(instructions: list[ev.Instruction]) -> bool:
    return not any(isinstance(i, ev.Fail) for i in instructions)


def is_publish(instruction: ev.Instruction) -> TypeGuard[ev.Publish]:
    return isinstance(instruction, ev.Publish)


def failure(instructions: list[ev.Instruction]) -> ShoalError:
    assert isinstance(instructions[0], ev.Fail)
    return instructions[0].error


def test_a_request_is_published_announced_and_completed() -> None:
    admission = machine()
    assert admission.handle(arrived("a"), 0) == [ev.Publish("a.0"), ev.Announce("m")]
    assert admission.outstanding().outstanding_s == {"m": 1.0}
    assert admission.handle(replied("a.0"), 1) == [ev.Keep("a.0"), acked("a.0"), ev.Complete("a")]
    assert admission.outstanding().outstanding_s == {}
    assert admission.units == 0


def test_a_models_first_request_is_announced_and_each_further_eighth_of_the_limit() -> None:
    admission = machine(max_queue_s=16)
    assert admission.handle(arrived("a"), 0)[-1] == ev.Announce("m")
    assert admission.handle(arrived("b"), 0) == [ev.Publish("b.0")]
    assert admission.handle(arrived("c"), 0) == [ev.Announce("m")]
    assert admission.handle(arrived("d"), 0) == []
    assert admission.handle(arrived("e", model="other"), 0)[-1] == ev.Announce("other")


def test_a_window_of_units_is_on_the_queue_and_replies_refill_it() -> None:
    admission = machine(window_batches=2)
    assert admission.handle(arrived("a", units=4), 0) == [
        ev.Publish("a.0"),
        ev.Publish("a.1"),
        ev.Announce("m"),
    ]
    assert admission.handle(replied("a.1"), 1) == [ev.Keep("a.1"), acked("a.1"), ev.Publish("a.2")]


def test_the_window_grows_with_the_lanes() -> None:
    admission = machine(window_batches=2)
    admission.handle(arrived("a", units=6), 0)
    two_lanes = ev.Rate(0.0, 1.0, lanes=2, batch_s=1.0)
    assert admission.handle(ev.Rated("m", two_lanes), 1) == [ev.Publish("a.2"), ev.Publish("a.3")]


def test_a_model_that_nobody_has_yet_has_the_window_of_one_lane() -> None:
    admission = machine(window_batches=2)
    nobody = ev.Rate(0.0, 1.0, lanes=0, batch_s=1.0)
    assert admission.handle(arrived("a", units=4, rate=nobody), 0)[:2] == [
        ev.Publish("a.0"),
        ev.Publish("a.1"),
    ]


def test_too_much_queued_is_refused_as_a_whole_with_a_time() -> None:
    admission = machine(max_queue_s=10)
    for number in range(9):
        admission.handle(arrived(f"a{number}"), 0)
    error = failure(admission.handle(arrived("b", units=3), 0))
    assert isinstance(error, Overloaded)
    assert error.retry_after_s == 2.0
    assert admission.outstanding().outstanding_s == {"m": 9.0}
    assert taken(admission.handle(arrived("c", units=1), 0))


def test_lanes_share_the_queue() -> None:
    admission = machine(max_queue_s=10)
    two_lanes = ev.Rate(0.0, 1.0, lanes=2, batch_s=1.0)
    admission.handle(arrived("a", units=15, rate=two_lanes), 0)
    assert taken(admission.handle(arrived("b", units=4, rate=two_lanes), 0))


@pytest.mark.parametrize(("lanes", "window"), [(1, 2), (3, 2), (1, 4)])
def test_what_the_queue_has_room_for_is_let_in_whatever_it_takes(lanes: int, window: int) -> None:
    """Of a model that generates a batch is as many texts as there are places: 8 s here."""
    admission = machine(window, max_queue_s=2)
    texts = ev.Rate(0.0, 1.0, lanes=lanes, batch_s=8.0)
    for number in range(8 * window * lanes):
        out = admission.handle(arrived(f"a{number}", rate=texts), 0)
        assert ev.Publish(f"a{number}.0") in out
    error = failure(admission.handle(arrived("b", rate=texts), 0))
    assert f"the limit is {8 * window} s" in error.message


def test_other_models_are_not_refused() -> None:
    admission = machine(max_queue_s=10)
    admission.handle(arrived("a", units=50), 0)
    assert admission.handle(arrived("b", model="other"), 0)[0] == ev.Publish("b.0")


def test_an_idle_system_takes_any_request() -> None:
    assert machine(max_queue_s=10).handle(arrived("a", units=1000), 0)[0] == ev.Publish("a.0")


def test_a_small_request_is_taken_beside_a_large_one_and_goes_to_the_queue_at_once() -> None:
    admission = machine(max_queue_s=10)
    admission.handle(arrived("large", units=20, items=2), 0)
    small = ev.Rate(seconds_per_byte=0.0, seconds_per_item=0.25, batch_s=1.0)
    assert admission.handle(arrived("small", rate=small), 0) == [ev.Publish("small.0")]
    assert admission.handle(arrived("small2", rate=small), 0) == [ev.Publish("small2.0")]
    assert admission.handle(arrived("small3", rate=small), 0) == []
    for number in range(40):
        admission.handle(arrived(f"s{number}", rate=small), 0)
    assert not taken(admission.handle(arrived("late"), 0))


def test_one_tenant_takes_half_of_the_room_for_early_units() -> None:
    admission = machine(max_queue_s=100)
    small = ev.Rate(seconds_per_byte=0.0, seconds_per_item=0.25, batch_s=1.0)
    for number in range(50):
        admission.handle(arrived(f"a{number}", rate=small, tenant="flood/"), 0)
    assert admission.outstanding().queued_s == {"m": 2.5}
    for tenant in ("b/", "c/"):
        light = arrived(tenant, rate=small, tenant=tenant)
        assert admission.handle(light, 0)[0] == ev.Publish(f"{tenant}.0")
    assert admission.handle(arrived("d", rate=small, tenant="d/"), 0) == []
    assert admission.handle(replied("a0.0"), 1)[2:] == [ev.Complete("a0")]


def test_a_large_request_finds_a_place_on_a_system_that_is_half_full() -> None:
    admission = machine(max_queue_s=10)
    admission.handle(arrived("a", units=5), 0)
    assert taken(admission.handle(arrived("b", units=1000), 0))


def test_a_tenant_that_fills_the_queue_is_refused_while_others_find_room() -> None:
    admission = machine(max_queue_s=10)
    flood = [arrived(f"f{n}", tenant="flood/") for n in range(40)]
    assert [taken(admission.handle(event, 0)) for event in flood] == [True] * 10 + [False] * 30
    assert taken(admission.handle(arrived("b", tenant="other/"), 0))
    assert taken(admission.handle(arrived("c", tenant="third/", units=2), 0))
    assert not taken(admission.handle(arrived("late", tenant="flood/"), 0))


def test_users_of_one_key_find_room_beside_each_other_too() -> None:
    admission = machine(max_queue_s=10)
    for number in range(40):
        admission.handle(arrived(f"f{number}", tenant="key/loud"), 0)
    assert not taken(admission.handle(arrived("late", tenant="key/loud"), 0))
    assert taken(admission.handle(arrived("b", tenant="key/quiet"), 0))


def test_the_bulk_class_has_a_window_and_a_limit_of_its_own() -> None:
    admission = Admission(2.0, 10.0, 100.0)
    bulk = [arrived(f"b{n}", klass="bulk") for n in range(120)]
    assert sum(taken(admission.handle(event, 0)) for event in bulk) == 100
    assert admission.handle(arrived("a"), 0) == [ev.Publish("a.0"), ev.Announce("m")]
    told = admission.outstanding()
    assert (told.outstanding_s, told.queued_s, told.requests) == ({"m": 1.0}, {"m": 1.0}, {"m": 1})
    assert (told.bulk_s, told.bulk_waiting_s) == ({"m": 100.0}, {"m": {"": 98.0}})


def test_what_waits_is_released_by_turns_of_tenants_then_by_priority() -> None:
    admission = machine(max_queue_s=100)
    admission.handle(arrived("a", units=3, tenant="a/"), 0)
    admission.handle(arrived("low", tenant="b/", priority=-5), 0)
    admission.handle(arrived("high", tenant="b/", priority=5), 0)
    admission.handle(arrived("c", units=2, tenant="c/"), 0)
    order = ["a.0", "a.1"]
    for number in range(6):
        order += [i.unit for i in admission.handle(replied(order[number]), 1) if is_publish(i)]
    assert order[2:] == ["a.2", "high.0", "c.0", "low.0", "c.1"]


def test_bytes_and_items_cost() -> None:
    admission = machine()
    admission.handle(arrived("a", rate=ev.Rate(0.01, 0.5, 1), items=3), 0)
    assert admission.outstanding().outstanding_s == {"m": 10 * 0.01 + 3 * 0.5}


def test_waiting_work_is_never_nothing() -> None:
    admission = machine()
    admission.handle(arrived("a", rate=ev.Rate(0.0, 0.0, 1)), 0)
    assert admission.outstanding().outstanding_s == {"m": LEAST_OUTSTANDING_S}


def test_a_second_answer_is_dropped_counted_and_acked() -> None:
    admission = machine()
    admission.handle(arrived("a", units=2), 0)
    admission.handle(replied("a.0"), 0)
    assert admission.handle(replied("a.0"), 1) == [ev.Discard("a.0", duplicate=True), acked("a.0")]
    admission.handle(replied("a.1"), 1)
    assert admission.handle(replied("a.1"), 2) == [ev.Discard("a.1", duplicate=True), acked("a.1")]


def test_an_answer_to_an_unknown_unit_is_acked() -> None:
    assert machine().handle(replied("x.0"), 0) == [ev.Discard("x.0", duplicate=False), acked("x.0")]


def test_settled_units_are_forgotten_in_time() -> None:
    admission = machine()
    admission.handle(arrived("a"), 0)
    admission.handle(replied("a.0"), 0)
    assert admission.handle(replied("a.0"), SETTLED_FOR_S)[0] == ev.Discard("a.0", duplicate=False)


def test_a_caller_that_leaves_cancels_what_is_queued() -> None:
    admission = machine(window_batches=2)
    admission.handle(arrived("a", units=4), 0)
    instructions = admission.handle(ev.ClientGone("a"), 1)
    assert isinstance(failure(instructions), RequestCancelled)
    assert instructions[1:] == [ev.Cancel("a")]
    assert admission.outstanding().outstanding_s == {}
    assert admission.handle(replied("a.0"), 2) == [ev.Discard("a.0", duplicate=True), acked("a.0")]


def test_a_deadline_fails_the_request_and_cancels_it() -> None:
    admission = machine()
    admission.handle(arrived("a"), 0)
    instructions = admission.handle(ev.DeadlinePassed("a"), 60)
    assert isinstance(failure(instructions), DeadlineExceeded)
    assert instructions[1:] == [ev.Cancel("a")]


def test_a_gateway_that_stops_fails_and_cancels_what_it_has_and_takes_nothing_more() -> None:
    admission = machine()
    admission.handle(arrived("a", 3), 0)
    admission.handle(arrived("b", model="n"), 0)
    out = admission.handle(ev.Stopped(), 1)
    assert [type(i) for i in out] == [ev.Fail, ev.Cancel, ev.Fail, ev.Cancel]
    assert {i.error.retryable for i in out if isinstance(i, ev.Fail)} == {True}
    assert admission.units == 0
    assert isinstance(failure(admission.handle(arrived("c"), 2)), ShuttingDown)
    assert admission.handle(replied("a.0"), 3)[-1] == acked("a.0")


def test_a_deadline_says_what_held_the_request_up() -> None:
    cases: list[tuple[ev.Rate, int, list[ev.Event], str]] = [
        (ONE_SECOND_AN_ITEM, 9, [], "7 of them not yet on the queue"),
        (ONE_SECOND_AN_ITEM, 1, [], "all of them are on the queue or with workers"),
        (ev.Rate(1.0, 1.0, lanes=0), 1, [], "no worker has 'm' loaded"),
        (ONE_SECOND_AN_ITEM, 1, [ev.PublishFailed("a.0"), ev.Resumed()], "the broker was away"),
    ]
    for rate, units, failed, why in cases:
        admission = machine()
        admission.handle(arrived("a", units, rate=rate), 0)
        for event in failed:
            admission.handle(event, 1)
        assert why in failure(admission.handle(ev.DeadlinePassed("a"), 60)).message


def test_what_ends_twice_ends_once() -> None:
    admission = machine()
    admission.handle(arrived("a"), 0)
    admission.handle(ev.DeadlinePassed("a"), 60)
    assert admission.handle(ev.ClientGone("a"), 61) == []
    assert admission.handle(ev.DeadlinePassed("a"), 61) == []
    assert admission.handle(ev.PublishFailed("a.0"), 61) == []
    assert admission.handle(ev.PublishRefused("a.0", Overloaded("full")), 61) == []


def test_a_unit_that_found_no_broker_is_published_again_under_its_id() -> None:
    admission = machine()
    admission.handle(arrived("a"), 0)
    assert admission.handle(ev.PublishFailed("a.0"), 1) == []
    assert admission.unsent
    assert admission.handle(ev.Resumed(), 2) == [ev.Publish("a.0")]
    assert not admission.unsent


def test_a_unit_that_was_answered_meanwhile_is_not_published_again() -> None:
    admission = machine()
    admission.handle(arrived("a", units=2), 0)
    admission.handle(ev.PublishFailed("a.0"), 1)
    admission.handle(replied("a.0"), 2)
    assert admission.handle(ev.Resumed(), 3) == []


def test_a_refused_unit_fails_its_request() -> None:
    admission = machine()
    admission.handle(arrived("a", units=2), 0)
    full = Overloaded("the queue is full")
    assert admission.handle(ev.PublishRefused("a.1", full), 1) == [
        ev.Fail("a", full),
        ev.Cancel("a"),
    ]


def test_a_model_that_failed_to_load_fails_fast_with_the_reason() -> None:
    admission = machine()
    admission.handle(arrived("a"), 0)
    failed = ev.Rate(0.0, 1.0, failed="config.json is missing")
    instructions = admission.handle(ev.Rated("m", failed), 1)
    error = failure(instructions)
    assert isinstance(error, ModelLoadFailed)
    assert "config.json is missing" in error.message
    assert instructions[1:] == [ev.Cancel("a")]
    assert isinstance(failure(admission.handle(arrived("b", rate=failed), 2)), ModelLoadFailed)
    assert error.retry_after_s is None
    unserved = ev.Rate(0.0, 1.0, failed="pip install 'shoal[onnx]'", unserved=True, again_at=44.5)
    refused = failure(admission.handle(arrived("c", rate=unserved), 3))
    assert refused.retry_after_s == 42
    assert refused.message.endswith("; it is not tried again for 42 s")
    assert (refused.status, refused.code) == (501, "runtime_missing")
    assert admission.outstanding().outstanding_s == {}


class World:
    """Plays workers, callers and a broker against one machine and checks what must always hold."""

    def __init__(self) -> None:
        self.admission = machine(window_batches=2, max_queue_s=20)
        self.queued: set[str] = set()
        self.open: dict[str, int] = {}
        self.ended: Counter[str] = Counter()
        self.kept: Counter[str] = Counter()
        self.now = 0.0

    def step(self, event: ev.Event) -> None:
        self.now += 0.1
        instructions = self.admission.handle(event, self.now)
        replies = isinstance(event, ev.Replied)
        assert sum(isinstance(i, ev.Ack) for i in instructions) == replies
        for instruction in instructions:
            self.perform(instruction)
        assert self.admission.units == sum(self.open.values())
        outstanding = self.admission.outstanding().outstanding_s
        assert bool(outstanding) == bool(self.open)
        assert all(seconds > 0 for seconds in outstanding.values())

    def perform(self, instruction: ev.Instruction) -> None:
        match instruction:
            case ev.Publish(unit):
                assert unit.partition(".")[0] in self.open
                self.queued.add(unit)
            case ev.Keep(unit):
                self.kept[unit] += 1
                assert self.kept[unit] == 1
                self.open[unit.partition(".")[0]] -= 1
            case ev.Complete(request):
                assert self.open.pop(request) == 0
                self.ended[request] += 1
            case ev.Fail(request, _):
                self.open.pop(request, None)
                self.ended[request] += 1
            case _:
                pass


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_every_request_ends_once_in_any_history(data: st.DataObject) -> None:
    world = World()
    made = 0
    for _ in range(data.draw(st.integers(5, 40))):
        action = data.draw(st.sampled_from(["arrive", "reply", "fail", "resume", "gone", "late"]))
        if action == "arrive":
            units = data.draw(st.integers(1, 6))
            world.open[f"r{made}"] = units
            world.step(arrived(f"r{made}", units))
            made += 1
        elif action == "resume":
            world.step(ev.Resumed())
        elif world.queued and action in ("reply", "fail"):
            unit = data.draw(st.sampled_from(sorted(world.queued)))
            world.step(replied(unit) if action == "reply" else ev.PublishFailed(unit))
        elif world.open and action in ("gone", "late"):
            request = data.draw(st.sampled_from(sorted(world.open)))
            world.step(ev.ClientGone(request) if action == "gone" else ev.DeadlinePassed(request))
    while world.open:
        world.step(ev.Resumed())
        for unit in sorted(world.queued - set(world.kept)):
            if unit.partition(".")[0] in world.open:
                world.step(replied(unit))
    assert world.ended == Counter({f"r{n}": 1 for n in range(made)})
    assert world.admission.outstanding().outstanding_s == {}
