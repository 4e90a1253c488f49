"""Units whose payloads must be fetched first: no batch waits for them, and a worker holds few."""

from __future__ import annotations

from shoal.core import events as ev
from shoal.core.plan import MAX_FETCHING
from shoal.values import Features
from tests.core.test_worker import head, kinds, ready, running


def large(unit: str = "p") -> ev.UnitHead:
    estimate = Features(750_000, 1, 750_000**2)
    return ev.UnitHead(unit, unit, "m", estimate, 600.0, payload_bytes=3_000_000)


def test_a_unit_that_is_fetched_first_counts_as_nothing_until_it_is_prepared() -> None:
    core = ready()
    assert core.handle(ev.Arrived(large(), 1, 0), 1.0)[0] == ev.Prepare("p")
    model = core.models["m"]
    assert (model.fetching, model.preparing, model.waiting_s) == (1, 0, 0.0)
    assert not model.gathering("work")
    assert kinds(core.handle(ev.Prepared([("p", [10])]), 1.5))[0] == "Run"
    assert (model.fetching, model.preparing) == (0, 0)


def test_a_small_unit_beside_it_runs_at_once() -> None:
    core = ready()
    core.handle(ev.Arrived(large(), 1, 0), 1.0)
    core.handle(ev.Arrived(head("hi", request="hi"), 2, 0), 1.0)
    out = core.handle(ev.Prepared([("hi", [10])]), 1.0)
    assert [i.items[0].unit for i in out if isinstance(i, ev.Run)] == ["hi"]


def test_a_busy_lane_does_not_wait_for_it() -> None:
    core = ready()
    running(core, "u", [50])
    core.handle(ev.Arrived(large(), 1, 0), 1.0)
    core.handle(ev.Arrived(head("hi", request="hi"), 1, 0), 1.0)
    core.handle(ev.Prepared([("hi", [10])]), 1.0)
    assert "Run" in kinds(core.handle(ev.Ticked(), 1.049)), "just before the lane is free"


def test_what_leaves_before_it_was_fetched_is_not_counted_any_more() -> None:
    core = ready()
    core.handle(ev.Arrived(large("a"), 1, 0), 1.0)
    core.handle(ev.Arrived(large("b"), 1, 0), 1.0)
    assert core.models["m"].fetching == 2
    assert core.handle(ev.Cancelled(["a"]), 1.0)[0] == ev.Terminate("a", "cancelled")
    assert kinds(core.handle(ev.DrainBegan(), 1.0)).count("Return") == 1
    assert core.models["m"].fetching == 0


def test_a_worker_that_fetches_enough_pulls_no_more_of_them() -> None:
    core = ready()
    pulls = {1}
    for number in range(3 * MAX_FETCHING):
        if not pulls:
            break
        out = core.handle(ev.Arrived(large(f"p{number}"), pulls.pop(), 0), 1.0)
        pulls |= {i.pull for i in out if isinstance(i, ev.Pull)}
        pulls -= {i.pull for i in out if isinstance(i, ev.Withdraw)}
    assert core.models["m"].fetching == MAX_FETCHING
    assert kinds(core.handle(ev.Prepared([("p0", [10])]), 1.0)) == ["Run"]
    out = core.handle(ev.Finished("cpu", 1, 0.01), 1.01)
    assert "Pull" in kinds(out), "there is room for one more"
