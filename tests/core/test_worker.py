"""Events in, exact instructions out."""

import msgspec
import pytest

from shoal.core import events as ev
from shoal.core.batcher import Budget
from shoal.core.claims import LINGER_S
from shoal.core.config import WorkerConfig
from shoal.core.delivery import MAX_REPLY_AGE_S, UNHEARD_LIMIT_S
from shoal.core.groups import LANES, LEAST_WORKERS, listens_to
from shoal.core.held import RESEND_S
from shoal.core.models import ModelSpec
from shoal.core.returning import MAX_DELIVERED
from shoal.core.urgency import PATIENCE_S
from shoal.core.worker import WorkerCore
from shoal.errors import ErrorInfo
from shoal.values import Features

BUDGET = Budget(seconds=0.1, tokens=8192, items=64)
#: One token, one millisecond.
COST = (0.0, 1e-3, 0.0, 0.0)

EVERYBODY = ev.Group(1, 0)


def spec(name: str) -> ModelSpec:
    return ModelSpec(name, "fake", 512, BUDGET, COST)


def worker(**changes: object) -> WorkerCore:
    config = {"lanes": ["cpu"], "models": [spec("m"), spec("n")], "pinned": ["m"]} | changes
    return WorkerCore(WorkerConfig(**config))  # type: ignore[arg-type]


def head(
    unit: str = "u", request: str = "r", tokens: int = 10, deadline: float = 600.0, model: str = "m"
) -> ev.UnitHead:
    return ev.UnitHead(unit, request, model, Features(tokens, 1, tokens**2), deadline)


def ready(**changes: object) -> WorkerCore:
    """A worker whose pinned model is resident and whose standing pull is open."""
    core = worker(**changes)
    assert core.handle(ev.Ticked(), 0.0) == [ev.StartRuntime("cpu", "fake")]
    assert core.handle(ev.RuntimeStarted("cpu", "fake"), 0.0) == [ev.Load("cpu", "m")]
    assert core.handle(ev.Loaded("cpu", "m", 100, 0.1), 0.0) == [ev.Pull(1, "m", 1, standing=True)]
    return core


def running(
    core: WorkerCore, unit: str = "u", lengths: list[int] | None = None, now: float = 1.0
) -> ev.Run:
    """Bring a unit as far as the runtime."""
    core.handle(ev.Arrived(head(unit, request=unit), 1, 0), now)
    out = core.handle(ev.Prepared([(unit, lengths or [10])]), now)
    (run,) = [i for i in out if isinstance(i, ev.Run)]
    return run


def demand(core: WorkerCore, now: float, model: str = "n") -> list[ev.Instruction]:
    """Half a second of work waits for a model, and nobody else claims it."""
    asked = core.handle(ev.DemandSeen("g", {model: 0.5}), now)
    claims = [i for i in asked if isinstance(i, ev.Claim)]
    return [i for claim in claims for i in core.handle(ev.Claimed(claim.model), now)]


def kinds(instructions: list[ev.Instruction]) -> list[str]:
    return [type(i).__name__ for i in instructions]


def test_a_unit_from_pull_to_settlement() -> None:
    core = ready()
    assert core.handle(ev.Arrived(head(), 1, pending=0), 1.0) == [ev.Prepare("u")]
    item = ev.Item("u", 0, 10)
    assert core.handle(ev.Prepared([("u", [10])]), 1.0) == [ev.Run("cpu", 1, "m", [item], 0.01)]
    out = core.handle(ev.Finished("cpu", 1, 0.01), 1.01)
    assert out == [ev.Reply("u"), ev.Pull(2, "m", 1, standing=True)]
    assert core.handle(ev.Settled("u"), 1.02) == [ev.Forget("u")]
    assert len(core.units) == 0


def test_pulls_a_whole_batch_just_before_the_lane_is_free() -> None:
    core = ready()
    core.models["m"].unit_seen(0.025)
    running(core, "u", [50])
    core.models["m"].work.pending = 500  # as the last delivery of a full pull would tell
    assert core.handle(ev.Ticked(), 1.01) == []
    wake = core.next_wake(1.01)
    assert wake is not None
    assert wake <= 1.05 - 0.004
    assert core.handle(ev.Ticked(), 1.0465) == [ev.Pull(2, "m", 3, standing=False)]


def test_a_busy_worker_asks_for_a_whole_batch_when_nothing_told_it_what_waits() -> None:
    core = ready()
    core.models["m"].unit_seen(0.02)
    running(core, "u", [50])
    assert core.handle(ev.Ticked(), 1.01) == []
    (pull,) = core.handle(ev.Ticked(), 1.0465)
    assert isinstance(pull, ev.Pull)
    assert (pull.count > 1, pull.standing) == (True, False)
    # nothing was there: now a unit that comes is wanted, whenever
    found = core.handle(ev.PullEnded(pull.pull, found_all=True), 1.047)
    assert found == [ev.Pull(pull.pull + 1, "m", 1, standing=True)]


def test_a_busy_lane_waits_for_the_rest_of_its_next_batch_and_an_idle_one_does_not() -> None:
    core = ready()
    running(core, "u", [50])
    core.handle(ev.Ticked(), 1.0465)  # pulls
    core.handle(ev.Arrived(head("v", "v"), 2, 1), 1.047)
    core.handle(ev.Arrived(head("w", "w"), 2, 0), 1.047)
    assert core.handle(ev.Prepared([("v", [5])]), 1.0485) == []
    core.handle(ev.PullEnded(2, found_all=True), 1.0485)
    out = core.handle(ev.Finished("cpu", 1, 0.05), 1.049)
    (run,) = [i for i in out if isinstance(i, ev.Run)]
    assert [item.unit for item in run.items] == ["v"]


def test_an_idle_worker_takes_what_waits_behind_a_unit_at_once() -> None:
    core = ready()
    core.models["m"].unit_seen(0.02)
    out = core.handle(ev.Arrived(head(tokens=20), 1, pending=500), 1.0)
    assert out == [ev.Prepare("u"), ev.Pull(2, "m", 4, standing=False)]


def test_never_asks_for_more_than_is_there() -> None:
    core = ready()
    core.handle(ev.Arrived(head(tokens=1), 1, pending=3), 1.0)
    core.handle(ev.Prepared([("u", [1])]), 1.0)
    core.handle(ev.Finished("cpu", 1, 0.001), 1.001)
    # asked at once, since a batch of 1 ms is "about to be free" from its start
    assert core.handle(ev.PullEnded(2, found_all=True), 1.002) == [
        ev.Pull(3, "m", 1, standing=True)
    ]


def test_a_broker_that_refuses_is_not_asked_in_a_hot_loop() -> None:
    core = ready()
    assert core.handle(ev.PullEnded(1, refused=True), 1.0) == []
    assert core.next_wake(1.0) == 1.1
    assert core.handle(ev.Ticked(), 1.1) == [ev.Pull(2, "m", 1, standing=True)]


def test_an_idle_lane_starts_at_once_and_a_busy_one_gets_the_next_batch_in_time() -> None:
    core = ready()
    running(core, "u", [50])
    core.handle(ev.Arrived(head("v", "v"), 2, 0), 1.0)
    assert core.handle(ev.Prepared([("v", [10])]), 1.01) == []
    out = core.handle(ev.Ticked(), 1.0495)
    assert kinds(out)[0] == "Run"


def test_a_unit_whose_items_all_failed_is_answered_without_a_batch() -> None:
    core = ready()
    core.handle(ev.Arrived(head(), 1, 0), 1.0)
    assert core.handle(ev.Prepared([("u", [0, 0])]), 1.0)[0] == ev.Reply("u")


def test_a_reply_is_sent_again_until_it_is_settled() -> None:
    core = ready()
    running(core)
    core.handle(ev.Finished("cpu", 1, 0.01), 1.01)
    assert core.handle(ev.Ticked(), 1.01 + RESEND_S + 0.1) == [ev.Reply("u")]
    assert core.handle(ev.Ticked(), 1.01 + RESEND_S + 0.2) == []
    assert core.handle(ev.Ticked(), 1.01 + 4 * RESEND_S) == [ev.Reply("u")]
    assert core.handle(ev.Settled("u"), 9.0) == [ev.Forget("u")]
    assert core.handle(ev.Settled("u"), 9.0) == []


def test_a_reply_that_is_never_settled_does_not_stay_for_ever() -> None:
    core = ready()
    running(core)
    core.handle(ev.Finished("cpu", 1, 0.01), 1.01)
    out: list[ev.Instruction] = []
    now = 1.0
    while len(core.units) and now < 900:
        now += 1.0
        out += core.handle(ev.Ticked(), now)
    assert ev.Terminate("u", "unheard") in out
    assert now >= 600.0 + MAX_REPLY_AGE_S


def test_a_reply_nobody_hears_is_tried_for_as_long_as_a_reconnect_takes() -> None:
    core = ready()
    running(core)
    core.handle(ev.Finished("cpu", 1, 0.01), 1.01)
    assert core.handle(ev.Unheard("u"), 1.02) == []
    assert core.handle(ev.Ticked(), 1.6) == [ev.Reply("u")]
    assert core.handle(ev.Unheard("u"), 1.02 + UNHEARD_LIMIT_S) == [ev.Terminate("u", "unheard")]


def test_a_send_that_was_heard_starts_the_patience_anew() -> None:
    core = ready()
    running(core)
    core.handle(ev.Finished("cpu", 1, 0.01), 1.01)
    core.handle(ev.Unheard("u"), 1.02)
    assert core.handle(ev.Ticked(), 1.6) == [ev.Reply("u")]  # heard, but its ack got lost
    later = 1.6 + 2 * UNHEARD_LIMIT_S
    assert core.handle(ev.Ticked(), later) == [ev.Reply("u")]
    assert core.handle(ev.Unheard("u"), later + 0.01) == []


def test_a_redelivered_unit_is_answered_again_or_left_to_run() -> None:
    core = ready()
    core.handle(ev.Arrived(head(), 1, 0), 1.0)
    assert "Prepare" not in kinds(core.handle(ev.Arrived(head(), 1, 0), 1.0))
    core.handle(ev.Prepared([("u", [10])]), 1.0)
    core.handle(ev.Finished("cpu", 1, 0.01), 1.01)
    assert core.handle(ev.Arrived(head(), 1, 0), 1.02) == [ev.Reply("u")]


def test_a_passed_deadline_costs_no_device_time() -> None:
    core = ready()
    running(core, "busy", [90])
    core.handle(ev.Arrived(head("late", "late", deadline=1.06), 2, 0), 1.0)
    core.handle(ev.Prepared([("late", [10])]), 1.0)
    out = core.handle(ev.Ticked(), 1.07)
    assert ev.Terminate("late", "deadline") in out
    assert "Run" not in kinds(core.handle(ev.Ticked(), 1.0899))


@pytest.mark.parametrize(
    "over",
    [
        ev.Finished("cpu", 1, 0.01),
        ev.BatchFailed("cpu", 1, ErrorInfo("compute_failed", "no", 500)),
    ],
    ids=["done", "failed"],
)
def test_a_batch_of_a_unit_that_was_dropped_says_nothing_of_it_when_it_comes_again(
    over: ev.Event,
) -> None:
    """A stall past deadline and `ack_wait`: the broker sent it again before it was terminated."""
    core = ready()
    core.handle(ev.Arrived(head(deadline=1.06), 1, 0), 1.0)
    core.handle(ev.Prepared([("u", [10])]), 1.0)
    assert ev.Terminate("u", "deadline") in core.handle(ev.Ticked(), 1.07)
    assert core.handle(ev.Arrived(head(deadline=1.09), 2, 0), 1.07) == [ev.Prepare("u")]
    assert not {"Reply", "FailItem", "Fail"} & set(kinds(core.handle(over, 1.08)))


def test_cancelled_requests_are_dropped_and_remembered() -> None:
    core = ready()
    running(core, "busy", [90])
    core.handle(ev.Arrived(head("a", "gone"), 2, 0), 1.0)
    core.handle(ev.Prepared([("a", [10])]), 1.0)
    assert core.handle(ev.Cancelled(["gone"]), 1.01) == [ev.Terminate("a", "cancelled")]
    assert core.handle(ev.Arrived(head("b", "gone"), 2, 0), 1.02)[0] == ev.Terminate(
        "b", "cancelled"
    )


def test_a_failed_batch_is_halved_until_the_item_at_fault_fails_alone() -> None:
    core = ready()
    run = running(core, "u", [5, 6, 7, 8])
    error = ErrorInfo("internal", "boom")
    seen: list[int] = []
    now = 1.01
    out = core.handle(ev.BatchFailed("cpu", run.batch, error), now)
    while runs := [i for i in out if isinstance(i, ev.Run)]:
        now += 0.1
        assert not any(isinstance(i, ev.Reply) for i in out)
        out = []
        for run in runs:
            bad = any(item.index == 2 for item in run.items)
            seen.append(len(run.items))
            out += core.handle(
                ev.BatchFailed("cpu", run.batch, error)
                if bad
                else ev.Finished("cpu", run.batch, 0.01),
                now,
            )
            if [i for i in out if isinstance(i, ev.FailItem)]:
                break
        if failed := [i for i in out if isinstance(i, ev.FailItem)]:
            assert [(f.unit, f.index, f.error.code) for f in failed] == [("u", 2, "compute_failed")]
            break
    while runs := [i for i in out if isinstance(i, ev.Run)]:
        now += 0.1
        out = core.handle(ev.Finished("cpu", runs[-1].batch, 0.01), now)
    assert max(seen) == 2


def test_out_of_memory_makes_batches_smaller() -> None:
    core = ready()
    run = running(core, "u", [20, 20, 20, 20])
    core.handle(ev.BatchFailed("cpu", run.batch, ErrorInfo("out_of_memory", "no")), 1.01)
    assert core.models["m"].budget.tokens == 40


def test_a_dead_runtime_is_restarted_reloaded_and_its_batch_run_again() -> None:
    core = ready()
    running(core)
    out = core.handle(ev.RuntimeDied("cpu", "fake", "killed"), 1.01)
    assert out == [ev.StartRuntime("cpu", "fake")]
    assert core.handle(ev.RuntimeStarted("cpu", "fake"), 1.2) == [ev.Load("cpu", "m")]
    out = core.handle(ev.Loaded("cpu", "m", 1, 0.1), 1.3)
    assert [i.items for i in out if isinstance(i, ev.Run)] == [[ev.Item("u", 0, 10)]]


def test_three_crashes_are_a_dead_letter_with_a_reason() -> None:
    core = ready()
    running(core)
    now = 1.0
    for crash in range(3):
        now += 20.0
        out = core.handle(ev.RuntimeDied("cpu", "fake", "exit status -11"), now)
        if crash < 2:
            now += 20.0
            out = core.handle(ev.Ticked(), now) + out
            core.handle(ev.RuntimeStarted("cpu", "fake"), now)
            core.handle(ev.Loaded("cpu", "m", 1, 0.1), now)
    (fail,) = [i for i in out if isinstance(i, ev.FailItem)]
    assert fail.error.code == "dead_lettered"
    assert "exit status -11" in fail.error.message


def test_units_with_a_strike_run_alone() -> None:
    core = ready()
    core.handle(ev.Arrived(head("a", "a"), 1, 0), 1.0)
    core.handle(ev.Arrived(head("b", "b"), 1, 0), 1.0)
    core.handle(ev.Prepared([("a", [5]), ("b", [5])]), 1.0)
    core.handle(ev.RuntimeDied("cpu", "fake", "killed"), 1.001)
    core.handle(ev.RuntimeStarted("cpu", "fake"), 1.1)
    out = core.handle(ev.Loaded("cpu", "m", 1, 0.1), 1.2)
    out += core.handle(ev.Finished("cpu", 2, 0.005), 1.3)
    runs = [i for i in out if isinstance(i, ev.Run)]
    assert [[item.unit for item in run.items] for run in runs] == [["a"], ["b"]]


def test_a_model_that_fails_to_load_fails_its_units_and_cools_down() -> None:
    core = worker(pinned=[], cooldown_s=60.0)
    demand(core, 0.0)
    core.handle(ev.RuntimeStarted("cpu", "fake"), 0.0)
    assert core.handle(ev.LoadFailed("cpu", "n", "no such file"), 1.0) == []
    assert core.models["n"].state == "failed"
    assert core.handle(ev.DemandSeen("g", {"n": 0.5}), 2.0) == []
    assert core.handle(ev.Ticked(), 1.0 + LINGER_S) == [ev.Unclaim("n")]
    assert demand(core, 62.0) == [ev.Load("cpu", "n")]


def test_a_model_that_failed_may_be_asked_for_again_after_its_cooldown() -> None:
    core = worker(pinned=[], cooldown_s=60.0)
    demand(core, 0.0)
    core.handle(ev.RuntimeStarted("cpu", "fake"), 0.0)
    core.handle(ev.LoadFailed("cpu", "n", "no such file"), 1.0)
    assert core.handle(ev.Ticked(), 1.0 + LINGER_S) == [ev.Unclaim("n")]
    assert core.next_wake(1.0 + LINGER_S) == 61.0
    assert core.handle(ev.Ticked(), 61.0) == []
    assert (core.models["n"].state, core.models["n"].reason) == ("absent", None)


def test_a_model_whose_files_were_mended_is_tried_before_its_cooldown_ends() -> None:
    core = worker(cooldown_s=60.0)
    core.handle(ev.Ticked(), 0.0)
    core.handle(ev.RuntimeStarted("cpu", "fake"), 0.0)
    core.handle(ev.LoadFailed("cpu", "m", "no such file"), 1.0)
    assert core.handle(ev.FilesChanged("m"), 2.0) == [ev.Load("cpu", "m")]
    core.handle(ev.LoadFailed("cpu", "m", "torn"), 3.0)
    assert core.models["m"].failed_until == 63.0, "other files are no second try of the same"
    core.handle(ev.FilesChanged("n"), 3.0)  # it did not fail
    assert core.models["n"].state == "absent"


def test_who_waits_for_a_model_that_fails_is_told_when_it_is_tried_again() -> None:
    core = worker(pinned=[], cooldown_s=60.0)
    demand(core, 0.0)
    core.handle(ev.RuntimeStarted("cpu", "fake"), 0.0)
    core.handle(ev.Arrived(head(model="n"), 7, 0), 0.5)
    (fail,) = core.handle(ev.LoadFailed("cpu", "n", "no such file"), 1.0)
    assert isinstance(fail, ev.Fail)
    told = "model 'n' cannot be loaded: no such file; it is not tried again for 60 s"
    assert (fail.error.message, fail.error.retry_after_s) == (told, 60)


def test_a_pinned_model_that_failed_is_loaded_again_after_its_cooldown() -> None:
    core = worker(cooldown_s=60.0)
    core.handle(ev.Ticked(), 0.0)
    core.handle(ev.RuntimeStarted("cpu", "fake"), 0.0)
    core.handle(ev.LoadFailed("cpu", "m", "no such file"), 1.0)
    assert core.pinned_failed() == ["m"]
    assert core.handle(ev.Ticked(), 61.0) == [ev.Load("cpu", "m")]
    assert core.models["m"].state == "loading"


def test_a_model_whose_loading_kills_the_runtime_fails_and_leaves_the_others_alone() -> None:
    core = ready()
    demand(core, 1.0)
    core.handle(ev.Arrived(head(model="n"), 7, 0), 1.0)
    now, out = 1.0, []
    for _ in range(3):
        assert core.lanes["cpu"].loading == "n"
        now += 20.0
        out = core.handle(ev.RuntimeDied("cpu", "fake", "exit status -9"), now)
        now += 20.0
        core.handle(ev.Ticked(), now)
        core.handle(ev.RuntimeStarted("cpu", "fake"), now)
        core.handle(ev.Loaded("cpu", "m", 1, 0.1), now)
    (fail,) = [i for i in out if isinstance(i, ev.Fail)]
    assert fail.error.code == "model_load_failed"
    assert "exit status -9" in fail.error.message
    assert core.models["n"].state == "failed"
    assert core.models["m"].state == "resident"


def test_a_runtime_that_cannot_start_fails_its_models() -> None:
    core = worker()
    now = 0.0
    for _ in range(3):
        core.handle(ev.Ticked(), now)
        assert core.lanes["cpu"].runtimes["fake"].state == "starting"
        core.handle(ev.RuntimeDied("cpu", "fake", "no torch"), now)
        now += 20.0
    assert core.pinned_failed() == ["m"]
    assert core.models["m"].reason == "its runtime died: no torch"
    assert core.handle(ev.Ticked(), now) == []


def test_nothing_is_pulled_for_a_model_that_is_not_loaded_any_more() -> None:
    core = ready(cooldown_s=60.0)
    out = core.handle(ev.RuntimeDied("cpu", "fake", "killed"), 1.0)
    assert out == [ev.StartRuntime("cpu", "fake"), ev.Withdraw(1)]
    core.handle(ev.RuntimeStarted("cpu", "fake"), 1.1)
    core.handle(ev.LoadFailed("cpu", "m", "gone"), 1.2)
    out = core.handle(ev.Arrived(head(), 1, 0), 1.2)  # it crossed with the withdrawal
    assert [i.unit for i in out if isinstance(i, ev.Return)] == ["u"]


def test_loads_on_demand_only_where_allowed() -> None:
    core = worker(pinned=[], on_demand=False)
    assert core.handle(ev.DemandSeen("g", {"n": 0.5}), 0.0) == []


def peer(core: WorkerCore, *models: str) -> None:
    """Another worker that has these models."""
    core.handle(ev.PeerSeen("peer", {m: ev.PeerModel("resident", 1) for m in models}), 0.0)


def with_two_models(**changes: object) -> WorkerCore:
    """`m` and `n` are resident, standing pull 1 is for `m` and 2 for `n`."""
    core = ready(**changes)
    demand(core, 0.0)
    assert core.handle(ev.Loaded("cpu", "n", 1, 0.1), 0.5) == [ev.Pull(2, "n", 1, standing=True)]
    return core


def test_a_busy_worker_withdraws_the_pulls_that_would_bring_something_for_others() -> None:
    core = with_two_models()
    peer(core, "m", "n")
    core.handle(ev.Arrived(head("x", model="n"), 2, 0), 1.0)
    out = core.handle(ev.Prepared([("x", [1])]), 1.0)
    assert out[1:] == [ev.Pull(3, "n", 1, standing=True)]  # so short that the lane is free soon
    core.handle(ev.Finished("cpu", 1, 0.001), 1.001)
    core.handle(ev.Arrived(head(), 1, 0), 1.01)
    out = core.handle(ev.Prepared([("u", [50])]), 1.01)
    assert [i for i in out if not isinstance(i, ev.Run)] == [ev.Withdraw(3)]


def test_a_busy_worker_keeps_the_pulls_that_bring_little() -> None:
    core = with_two_models()
    peer(core, "m", "n")
    core.handle(ev.Arrived(head(), 1, 0), 1.0)
    assert kinds(core.handle(ev.Prepared([("u", [50])]), 1.0)) == ["Run"]


def test_a_unit_that_comes_unasked_while_all_is_busy_goes_to_another_worker() -> None:
    core = with_two_models()
    peer(core, "n")
    running(core, "u", [50])
    out = core.handle(ev.Arrived(head("x", model="n"), 2, 0), 1.01)
    assert out == [ev.Return("x", 0.0)]
    assert core.handle(ev.Ticked(), 1.04) == []  # and is not asked for meanwhile
    out = core.handle(ev.Ticked(), 1.0465)
    assert out[:1] == [ev.Pull(3, "n", 1, standing=False)]


def test_a_unit_that_comes_unasked_stays_where_a_lane_is_free_soon_or_nobody_else_could_take_it() -> (
    None
):
    core = with_two_models()
    running(core, "u", [50])
    out = core.handle(ev.Arrived(head("x", model="n"), 2, 0), 1.01)
    assert out == [ev.Prepare("x")]
    core = with_two_models()
    peer(core, "n")
    running(core, "u", [50])
    out = core.handle(ev.Arrived(head("x", model="n"), 2, 0), 1.0485)
    assert out[0] == ev.Prepare("x")


def test_others_are_told_of_a_batch_pull_and_of_what_it_left() -> None:
    core = with_two_models()
    peer(core, "m", "n")
    running(core, "u", [50])
    core.handle(ev.PeerPulled("m", "work", pending=2, due=1.9), 1.02)
    out = core.handle(ev.Ticked(), 1.0465)
    assert out == [
        ev.Pull(3, "m", 2, standing=False),
        ev.TellPulled(EVERYBODY, "m", "work", pending=0, due=1.0465 + PATIENCE_S),
    ]
    core.handle(ev.Arrived(head("x"), 3, pending=3), 1.047)
    out = core.handle(ev.PullEnded(3), 1.047)
    assert out[0] == ev.TellPulled(EVERYBODY, "m", "work", pending=3, due=0.0 + PATIENCE_S)


def test_nobody_is_told_where_nobody_could_use_it() -> None:
    alone = with_two_models()
    running(alone, "u", [50])
    alone.handle(ev.PeerPulled("m", "work", pending=2, due=1.9), 1.02)
    assert kinds(alone.handle(ev.Ticked(), 1.0465)) == ["Pull"]
    one_model = with_two_models()
    peer(one_model, "m")
    running(one_model, "u", [50])
    one_model.handle(ev.PeerPulled("m", "work", pending=2, due=1.9), 1.02)
    assert kinds(one_model.handle(ev.Ticked(), 1.0465)) == ["Pull"]


def test_who_serves_one_model_tells_those_who_serve_more() -> None:
    core = ready(models=[spec("m")])
    peer(core, "m", "n")
    running(core, "u", [50])
    core.handle(ev.PeerPulled("m", "work", pending=2, due=1.9), 1.02)
    assert kinds(core.handle(ev.Ticked(), 1.0465)) == ["Pull", "TellPulled"]


def test_in_a_large_pool_halves_are_told_the_own_one_first() -> None:
    core = with_two_models()
    copies = {name: ev.PeerModel("resident", 1) for name in ("m", "n")}
    for number in range(2 * LEAST_WORKERS - 1):
        core.handle(ev.PeerSeen(f"p{number}", copies, lanes=LANES // 4), 0.0)
    running(core, "u", [50])
    core.handle(ev.PeerPulled("m", "work", pending=2, due=1.9), 1.02)
    pull, *told = core.handle(ev.Ticked(), 1.0465)
    assert isinstance(pull, ev.Pull)
    halves = [each.group for each in told if isinstance(each, ev.TellPulled)]
    assert len(halves) == len(told)
    assert halves[0] == listens_to("")[1]
    assert {half.groups for half in halves} == {2}


def test_the_queue_that_others_neglect_goes_first() -> None:
    """`n` was asked for longer ago by this worker, but another one has just emptied it."""
    core = with_two_models()
    running(core, "u", [50])
    core.handle(ev.PullEnded(2, found_all=True), 1.0)
    core.handle(ev.PeerPulled("m", "work", pending=1, due=1.8), 1.01)
    core.handle(ev.PeerPulled("n", "work", pending=0, due=2.03), 1.03)
    out = core.handle(ev.Ticked(), 1.0465)
    assert out[:1] == [ev.Pull(3, "m", 2, standing=False)]


def test_what_others_tell_of_a_model_that_is_not_known_here_is_ignored() -> None:
    core = ready()
    assert core.handle(ev.PeerPulled("none", "work", pending=1, due=1.0), 1.0) == []


def test_a_unit_that_was_handed_round_stays() -> None:
    core = with_two_models()
    peer(core, "n")
    running(core, "u", [50])
    unit = msgspec.structs.replace(head("x", model="n"), delivered=MAX_DELIVERED)
    assert core.handle(ev.Arrived(unit, 2, 0), 1.01) == [ev.Prepare("x")]


def test_a_lost_broker_takes_the_pulls_and_a_regained_one_brings_them_and_the_replies_back() -> (
    None
):
    core = ready()
    running(core)
    core.handle(ev.Finished("cpu", 1, 0.01), 1.01)
    assert core.handle(ev.BrokerLost(), 1.1) == []
    assert core.handle(ev.BrokerBack(), 1.2) == [ev.Reply("u"), ev.Pull(3, "m", 1, standing=True)]


def test_draining_gives_back_what_has_not_started() -> None:
    core = ready()
    running(core, "busy", [90])
    core.handle(ev.Arrived(head("v", "v"), 2, 0), 1.0)
    core.handle(ev.Prepared([("v", [10])]), 1.0)
    out = core.handle(ev.DrainBegan(), 1.01)
    assert [i.unit for i in out if isinstance(i, ev.Return)] == ["v"]
    assert [
        i.unit
        for i in core.handle(ev.Arrived(head("w", "w"), 3, 0), 1.02)
        if isinstance(i, ev.Return)
    ] == ["w"]
    assert core.handle(ev.Finished("cpu", 1, 0.09), 1.1) == [ev.Reply("busy")]


def test_a_draining_worker_forgets_what_is_cancelled_and_repeats_what_is_answered() -> None:
    core = ready()
    running(core)
    core.handle(ev.Finished("cpu", 1, 0.01), 1.01)
    core.handle(ev.Cancelled(["gone"]), 1.02)
    core.handle(ev.DrainBegan(), 1.03)
    out = core.handle(ev.Arrived(head("g", "gone"), 2, 0), 1.04)
    assert out == [ev.Terminate("g", "cancelled")]
    assert core.handle(ev.Arrived(head(), 2, 0), 1.05) == [ev.Reply("u")]
