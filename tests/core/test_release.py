"""What may be on the queue and whose turn it is: exact steps, then bounds in random histories."""

from __future__ import annotations

from collections import deque

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.core import admission_events as ev
from shoal.core.admission import TENANTS_TOLD_IN_ALL, Admission
from shoal.core.peers import LOOK_EVERY_S, PULSE_FRESH_S
from shoal.core.tenants import REST, SecondsByTenant, before_s, part_of

BATCH_S = 1.0
WINDOW_S = 2 * BATCH_S


def rate(item_s: float, lanes: int = 1) -> ev.Rate:
    return ev.Rate(0.0, item_s, lanes, batch_s=BATCH_S)


def arrived(
    request: str, cost_s: float, units: int = 1, lanes: int = 1, tenant: str = ""
) -> ev.Arrived:
    """Each unit costs `cost_s`."""
    sizes = tuple(ev.UnitSize(f"{request}.{n}", 10, 1) for n in range(units))
    return ev.Arrived(request, "m", sizes, rate(cost_s, lanes), tenant)


def published(instructions: list[ev.Instruction]) -> list[str]:
    return [i.unit for i in instructions if isinstance(i, ev.Publish)]


def pulse(gateway: str, outstanding_s: float, queued_s: float, requests: int = 1) -> ev.PeerHeard:
    told = ev.Outstanding({"m": outstanding_s}, {"m": queued_s}, {"m": requests})
    return ev.PeerHeard(gateway, told)


# --- the window -------------------------------------------------------------------------------


def test_the_window_is_in_seconds_so_that_small_units_fill_batches() -> None:
    admission = Admission(2.0, 100.0)
    assert len(published(admission.handle(arrived("a", 0.125, units=64), 0))) == 16
    assert published(admission.handle(ev.Replied("a.0", ""), 1)) == ["a.16"]


def test_costly_units_are_two_for_each_lane() -> None:
    admission = Admission(2.0, 100.0)
    assert len(published(admission.handle(arrived("a", 5.0, units=10, lanes=3), 0))) == 6


def test_beside_batches_the_window_covers_the_way_to_the_worker() -> None:
    admission = Admission(2.0, 100.0)
    quick = ev.Rate(0.0, 2.0**-10, 1, batch_s=0.001)
    sizes = tuple(ev.UnitSize(f"a.{n}", 10, 1) for n in range(100))
    assert len(published(admission.handle(ev.Arrived("a", "m", sizes, quick), 0))) == 32


def test_what_another_gateway_has_queued_is_not_queued_here_too() -> None:
    admission = Admission(2.0, 100.0)
    admission.handle(pulse("other", outstanding_s=0.5, queued_s=0.5), 0)
    assert len(published(admission.handle(arrived("a", 0.125, units=64), 0))) == 12


def test_each_of_several_gateways_has_its_part_of_the_window_and_a_unit_a_lane() -> None:
    admission = Admission(2.0, 100.0)
    for other in range(3):
        admission.handle(pulse(f"other{other}", outstanding_s=50.0, queued_s=2.0), 0)
    assert len(published(admission.handle(arrived("a", 0.125, units=64), 0))) == 4
    crowded = Admission(2.0, 100.0)
    crowded.handle(pulse("other", outstanding_s=50.0, queued_s=20.0), 0)
    assert len(published(crowded.handle(arrived("a", 5.0, units=9, lanes=2), 0))) == 2


def test_the_part_of_the_window_is_that_of_the_tenants_that_wait() -> None:
    crowd = {f"crowd/{user}": 1.0 for user in range(50)}
    assert part_of({"a": 3.0}, {"a": 1.0}) == pytest.approx(0.75)
    assert part_of({"light/1": 0.1}, crowd) == pytest.approx(0.5)
    assert part_of({"light/1": 0.1}, {**crowd, "light/2": 0.3}) == pytest.approx(0.125, rel=1e-3)
    assert part_of({}, crowd) == 0.0
    waiting = {"m": crowd}
    for tenant, units in (("light", 8), ("crowd/0", 1)):
        admission = Admission(2.0, 1000.0)
        heard = ev.PeerHeard(
            "other", ev.Outstanding({"m": 52.0}, {"m": 2.0}, {"m": 50}, {}, waiting)
        )
        admission.handle(heard, 0)
        came = arrived("a", 0.125, units=10, tenant=tenant)
        assert len(published(admission.handle(came, 0))) == units


def test_room_that_another_gateway_leaves_is_used_when_it_says_so() -> None:
    admission = Admission(2.0, 100.0)
    admission.handle(pulse("other", outstanding_s=9.0, queued_s=1.0), 0)
    assert len(published(admission.handle(arrived("a", 0.25, units=64), 0))) == 4
    assert len(published(admission.handle(pulse("other", 0.5, 0.5), 1))) == 2
    nothing = ev.PeerHeard("other", ev.Outstanding())
    assert len(published(admission.handle(nothing, 2))) == 2


def test_a_gateway_that_is_silent_no_longer_counts() -> None:
    admission = Admission(2.0, 100.0)
    admission.handle(pulse("other", outstanding_s=9.0, queued_s=2.0), 0)
    assert len(published(admission.handle(arrived("a", 0.25, units=64), 0))) == 4
    later = PULSE_FRESH_S + LOOK_EVERY_S
    assert len(published(admission.handle(ev.Replied("a.0", ""), later))) == 5


def test_pulses_of_two_gateways_keep_one_window_between_them() -> None:
    """Whatever each knew at first, one exchange of pulses later both have half of it."""
    gateways = {name: Admission(2.0, 1000.0) for name in ("g1", "g2")}
    queues = {name: deque[str]() for name in gateways}
    for name, gateway in gateways.items():
        queues[name] += published(gateway.handle(arrived(name, 0.125, units=500), 0))
    for step in range(100):
        for name, gateway in gateways.items():
            heard = ev.PeerHeard(name, gateway.outstanding())
            other = "g2" if name == "g1" else "g1"
            queues[other] += published(gateways[other].handle(heard, step / 4))
        for name, gateway in gateways.items():
            queues[name] += published(
                gateway.handle(ev.Replied(queues[name].popleft(), ""), step / 4)
            )
        if step >= 16:  # by then all that was released too much at first has been answered
            assert {name: len(queue) * 0.125 for name, queue in queues.items()} == {
                "g1": WINDOW_S / 2,
                "g2": WINDOW_S / 2,
            }


# --- the limit over all gateways --------------------------------------------------------------


def is_taken(instructions: list[ev.Instruction]) -> bool:
    return not any(isinstance(i, ev.Fail) for i in instructions)


def test_what_other_gateways_have_counts_against_the_limit() -> None:
    alone, one_of_two = Admission(2.0, 10.0), Admission(2.0, 10.0)
    waiting = {"m": {"acme": 7.0}}
    told = ev.Outstanding({"m": 9.0}, {"m": 2.0}, {"m": 9}, {}, waiting)
    one_of_two.handle(ev.PeerHeard("g2", told), 0)
    for gateway, most in ((alone, 10), (one_of_two, 1)):
        came = [arrived(f"r{n}", 1.0, tenant="acme") for n in range(20)]
        assert sum(is_taken(gateway.handle(event, 0)) for event in came) == most


def test_a_tenant_of_another_gateway_that_fills_the_queue_keeps_nobody_out_here() -> None:
    admission = Admission(2.0, 10.0)
    waiting = {"m": {"flood": 8.0}}
    told = ev.Outstanding({"m": 10.0}, {"m": 2.0}, {"m": 10}, {}, waiting)
    admission.handle(ev.PeerHeard("g2", told), 0)
    assert is_taken(admission.handle(arrived("a", 1.0, tenant="light"), 0))
    assert not is_taken(admission.handle(arrived("b", 1.0, tenant="flood"), 0))


def test_turns_decide_what_comes_before_a_request() -> None:
    waiting = {"a/1": 4.0, "a/2": 3.0, "b/1": 0.5, "b/2": 20.0}
    assert before_s({}, "a/1", 1.0, requests=0) == 0.0
    # Its own first: two requests of the same user, as much as itself each.
    own = 2.0
    of_key = min(3.0, own + 1.0)
    other_key = min(20.5, own + 1.0 + of_key)
    assert before_s(waiting, "a/1", 1.0, requests=2) == own + of_key + other_key
    assert before_s(waiting, "c", 1.0, requests=0) == 1.0 + 1.0


def test_a_pulse_tells_the_largest_tenants_and_the_rest_of_each_key_as_one() -> None:
    waiting = SecondsByTenant()
    for user in range(10):
        waiting.add(f"key/{user}", 1.0 + user)
    assert waiting.largest(10) == {f"key/{user}": 1.0 + user for user in range(10)}
    assert waiting.largest(2) == {"key/9": 10.0, "key/8": 9.0, f"key/{REST}": 36.0}
    waiting.remove("key/9", 10.0)
    assert waiting.largest(1) == {"key/8": 9.0, f"key/{REST}": 36.0}
    assert waiting.total == 45.0


def test_a_pulse_tells_fewer_tenants_of_each_of_many_models() -> None:
    admission = Admission(2.0, 1e9)
    models, users = TENANTS_TOLD_IN_ALL // 8, 20
    for model in range(models):
        for user in range(users):
            request = arrived(f"{model}-{user}", 1.0, 3, tenant=f"key/{user}")
            admission.handle(msgspec.structs.replace(request, model=f"m{model}"), 0.0)
    told = admission.outstanding().waiting_s
    assert len(told) == models
    assert {len(tenants) for tenants in told.values()} == {8 + 1}, "and the rest as one"


# --- random histories -------------------------------------------------------------------------

COSTS = st.sampled_from([0.01, 0.1, 0.3, 0.5, 1.0])
TENANTS = st.sampled_from(["", "a", "a/1", "a/2", "b/1"])


@given(st.data(), st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_nothing_is_released_beyond_the_window_and_nothing_is_lost(
    data: st.DataObject, lanes: int
) -> None:
    """Two batches for each lane and one for early units, or two units for each lane."""
    admission = Admission(2.0, 1000.0)
    costs: dict[str, float] = {}
    queue: list[str] = []
    answered: set[str] = set()
    for number in range(data.draw(st.integers(1, 40))):
        if data.draw(st.booleans()) or not queue:
            cost_s, units = data.draw(COSTS), data.draw(st.integers(1, 12))
            event = arrived(f"r{number}", cost_s, units, lanes, data.draw(TENANTS))
            costs.update({unit.id: cost_s for unit in event.units})
            queue += published(admission.handle(event, number))
        else:
            unit = queue.pop(data.draw(st.integers(0, len(queue) - 1)))
            answered.add(unit)
            queue += published(admission.handle(ev.Replied(unit, ""), number))
        on_queue_s = sum(costs[unit] for unit in queue)
        assert on_queue_s <= 3 * BATCH_S * lanes + 1e-6 or len(queue) <= 2 * lanes
        assert on_queue_s >= WINDOW_S * lanes - 1.0 or len(queue) + len(answered) == len(costs)
    while queue:
        answered.add(unit := queue.pop())
        queue += published(admission.handle(ev.Replied(unit, ""), 100))
    assert answered == costs.keys()
    assert not admission.outstanding()


class Lane:
    """Serves the queue as it comes, a unit at a time, in virtual time; remembers each answer's."""

    def __init__(self, admission: Admission) -> None:
        self.admission = admission
        self.now = 0.0
        self.costs: dict[str, float] = {}
        self.queue: deque[str] = deque()
        self.done_at: dict[str, float] = {}

    def arrive(self, event: ev.Arrived) -> None:
        self.costs.update(dict.fromkeys((u.id for u in event.units), event.rate.seconds_per_item))
        self.queue += published(self.admission.handle(event, self.now))

    def run_until(self, until: float) -> None:
        """Serve; the unit that runs at that time is finished."""
        while self.queue and self.now < until:
            unit = self.queue.popleft()
            self.now += self.costs[unit]
            self.done_at[unit] = self.now
            self.queue += published(self.admission.handle(ev.Replied(unit, ""), self.now))
        self.now = max(self.now, until)


@given(
    flood_cost_s=st.sampled_from([0.1, 0.3, 1.0]),
    units=st.integers(1, 20),
    light_cost_s=COSTS,
    gaps=st.lists(st.floats(0.0, 5.0), min_size=1, max_size=5),
    others=st.integers(0, 3),
)
@settings(max_examples=60, deadline=None)
def test_a_flood_of_fifty_times_the_load_delays_a_unit_by_a_bounded_time(
    flood_cost_s: float, units: int, light_cost_s: float, gaps: list[float], others: int
) -> None:
    """By what is on the queue (two batches, and one for early units), the unit that runs, and the
    largest unit and one more of each other tenant; not by what the flood has waiting."""
    lane = Lane(Admission(2.0, 1e9))
    load_s = 50 * light_cost_s * len(gaps) + 20.0
    for number in range(round(load_s / flood_cost_s / units) + 1):
        lane.arrive(arrived(f"flood{number}", flood_cost_s, units, tenant="flood"))
    for other in range(others):
        lane.arrive(arrived(f"other{other}", 0.5, 100, tenant=f"other{other}"))
    came: dict[str, float] = {}
    for number, gap in enumerate(gaps):
        lane.run_until(lane.now + gap)
        came[f"light{number}.0"] = lane.now
        lane.arrive(arrived(f"light{number}", light_cost_s, tenant="light"))
    lane.run_until(float("inf"))
    longest_s = max(flood_cost_s, light_cost_s, 0.5 if others else 0.0)
    for number, (unit, at) in enumerate(came.items()):
        own_s = light_cost_s * (number + 1)  # those before it may still wait as well
        turns = 2 * (1 + others) * (number + 1)
        bound_s = 3 * BATCH_S + (1 + turns) * longest_s + own_s
        assert lane.done_at[unit] - at <= bound_s
