"""Many models on one lane: events in, exact instructions out."""

import msgspec
import pytest

from shoal.core import events as ev
from shoal.core.batcher import Budget
from shoal.core.claims import LINGER_S, RENEW_S, TTL_S
from shoal.core.config import WorkerConfig
from shoal.core.cooldowns import Cooldowns
from shoal.core.eviction import KEEPS_UP_S, PATIENCE_S
from shoal.core.fetching import LIMIT_S
from shoal.core.hanging import EVICT_LIMIT_S, LEAST_LIMIT_S
from shoal.core.lanes import Lane
from shoal.core.memory import DEVICE_SHARE
from shoal.core.models import ModelSpec, ModelState
from shoal.core.packing import Limits, Packing
from shoal.core.placement import HOT_FOR_S, RETRY_S
from shoal.core.recycle import (
    ASK_AFTER_EVICTION_S,
    ASK_S,
    EVERY_S,
    READINGS,
    SLACK_BYTES,
    Recycle,
)
from shoal.core.residency import Residency
from shoal.core.strangers import Strangers
from shoal.core.worker import WorkerCore
from shoal.errors import ConfigError, ErrorInfo
from shoal.values import Features

MB = 10**6
BUDGET = Budget(seconds=0.1, tokens=8192, items=64)
LOAD_S = 1.0


def spec(name: str, mb: int = 60) -> ModelSpec:
    cost = (0.0, 1e-3, 0.0, 0.0)
    return ModelSpec(name, "fake", 512, BUDGET, cost, mb * MB, LOAD_S)


class Worker:
    """One worker with one lane of 100 MB; `grants` says whether its claims are granted at once."""

    def __init__(self, *models: ModelSpec, **changes: object) -> None:
        config: dict[str, object] = {"lanes": ["cpu"], "lane_bytes": {"cpu": 100 * MB}}
        self.core = WorkerCore(
            WorkerConfig(models=list(models or [spec("m"), spec("n")]), **config | changes)  # type: ignore[arg-type]
        )
        self.now = 0.0
        self.grants = True
        self.starts = True
        self.aside: list[ev.Instruction] = []

    @property
    def lane(self) -> set[str]:
        return self.core.lanes["cpu"].resident

    def tell(self, event: ev.Event, at: float | None = None) -> list[ev.Instruction]:
        """What follows but for pulls, of an empty queue, and what goes to `aside`; claims and starts
        of runtimes are answered at once."""
        self.now = self.now if at is None else at
        out = self.core.handle(event, self.now)
        for instruction in list(out):
            match instruction:
                case ev.Claim(model) if self.grants:
                    out.remove(instruction)
                    out += self.tell(ev.Claimed(model))
                case ev.Pull(pull, standing=False):
                    out += self.tell(ev.PullEnded(pull, found_all=True))
                case ev.StartRuntime(lane, kind) if self.starts:
                    out.remove(instruction)
                    out += self.tell(ev.RuntimeStarted(lane, kind))
        self.aside += [i for i in out if isinstance(i, ev.AskStats | ev.AskProcessor | ev.Unclaim)]
        ignored = ev.Pull | ev.Withdraw | ev.AskStats | ev.AskProcessor | ev.Unclaim
        return [i for i in out if not isinstance(i, ignored)]

    def demand(self, at: float, **seconds: float) -> list[ev.Instruction]:
        return self.tell(ev.DemandSeen("g", seconds), at)

    def rings_until(self, end: float) -> list[ev.Instruction]:
        """What follows while nothing but time passes."""
        out: list[ev.Instruction] = []
        while (wake := self.core.next_wake(self.now)) is not None and wake < end:
            out += self.tell(ev.Ticked(), max(self.now, wake))
        return out

    def load(self, model: str, at: float, mb: int = 60) -> list[ev.Instruction]:
        """Have a model loaded for a moment of demand that is over then."""
        assert self.demand(at, **{model: 0.1})[-1] == ev.Load("cpu", model)
        out = self.loaded(model, mb=mb)
        return out + self.demand(at)

    def loaded(self, model: str, mb: int = 60) -> list[ev.Instruction]:
        return self.tell(ev.Loaded("cpu", model, mb * MB, LOAD_S))

    def run(self, unit: str, model: str = "m", *lengths: int) -> ev.Run:
        lengths = lengths or (10,)
        head = ev.UnitHead(unit, unit, model, Features(sum(lengths), len(lengths)), 6000.0)
        self.tell(ev.Arrived(head, 1, 0))
        out = self.tell(ev.Prepared([(unit, list(lengths))]))
        (run,) = [i for i in out if isinstance(i, ev.Run)]
        return run


def test_a_model_is_loaded_by_evicting_an_idle_one_under_claims_of_both() -> None:
    worker = Worker()
    worker.load("m", at=0.0)
    worker.grants = False
    assert worker.demand(100.0, n=0.1) == [ev.Claim("n", TTL_S)]
    assert worker.tell(ev.Claimed("n")) == [ev.Claim("m", TTL_S)]
    assert worker.tell(ev.Claimed("m")) == [ev.Evict("cpu", "m", "for n")]
    assert worker.core.models["m"].state == "absent"
    assert worker.tell(ev.Ticked(), 100.5) == []  # its bytes are not free yet
    assert worker.tell(ev.Evicted("cpu", "m")) == [ev.Load("cpu", "n")]
    worker.loaded("n")
    assert worker.lane == {"n"}
    worker.aside.clear()
    worker.tell(ev.Ticked(), 100.5 + LINGER_S)
    assert set(worker.aside) - {ev.AskStats("cpu", "fake")} == {ev.Unclaim("m"), ev.Unclaim("n")}


def test_a_model_used_lately_stays_until_the_other_waited_for_as_long_as_its_load() -> None:
    worker = Worker()
    worker.load("m", at=0.0)
    worker.tell(ev.Finished("cpu", worker.run("u").batch, 0.01))
    assert worker.demand(0.0, n=0.1) == []
    assert worker.demand(0.4, n=0.1) == []
    assert ev.Evict("cpu", "m", "for n") in worker.demand(0.6, n=0.1)


def test_a_model_with_units_here_is_not_evicted_but_no_more_is_pulled_for_it() -> None:
    worker = Worker()
    worker.load("m", at=0.0)
    run = worker.run("u")
    assert worker.demand(50.0, n=0.1, m=0.1) == []
    assert worker.demand(100.0, n=0.1, m=0.1) == []  # it has waited for its turn: m is to leave
    assert "m" in worker.core.lanes["cpu"].leaving
    assert not any(isinstance(i, ev.Pull) for i in worker.core.handle(ev.Ticked(), 100.1))
    out = worker.tell(ev.Finished("cpu", run.batch, 0.01), 100.2)
    assert out == [ev.Reply("u"), ev.Evict("cpu", "m", "for n")]


def test_a_model_whose_claim_is_lost_before_it_is_idle_stays() -> None:
    worker = Worker()
    worker.load("m", at=0.0)
    run = worker.run("u")
    worker.demand(50.0, n=0.1, m=0.1)
    worker.demand(100.0, n=0.1, m=0.1)
    worker.grants = False
    assert ev.Claim("m", TTL_S) in worker.tell(ev.Ticked(), 100.0 + RENEW_S)
    worker.tell(ev.ClaimRefused("m"))
    assert worker.core.lanes["cpu"].leaving == set()
    assert worker.tell(ev.Finished("cpu", run.batch, 0.01), 103.1) == [ev.Reply("u")]
    assert worker.lane == {"m"}


def test_a_unit_that_comes_for_a_model_that_went_is_given_back() -> None:
    worker = Worker()
    worker.load("m", at=0.0)
    worker.demand(100.0, n=0.1)
    out = worker.tell(ev.Arrived(ev.UnitHead("u", "u", "m", Features(1, 1), 600.0), 1, 0))
    assert [i.unit for i in out if isinstance(i, ev.Return)] == ["u"]


def test_a_refused_claim_is_asked_for_again_a_second_later() -> None:
    worker = Worker()
    worker.grants = False
    assert worker.demand(0.0, n=0.1) == [ev.Claim("n", TTL_S)]
    assert worker.tell(ev.ClaimRefused("n")) == []
    assert worker.demand(RETRY_S / 2, n=0.1) == []
    assert worker.core.next_wake(worker.now) == RETRY_S
    assert worker.tell(ev.Ticked(), RETRY_S) == [ev.Claim("n", TTL_S)]


def test_another_model_goes_where_the_first_could_not_be_claimed() -> None:
    worker = Worker(spec("a", 40), spec("b", 40), spec("c", 40))
    worker.load("a", 0.0, 40)
    worker.load("b", 1.0, 40)
    worker.grants = False
    worker.demand(100.0, c=0.1)
    assert worker.tell(ev.Claimed("c")) == [ev.Claim("a", TTL_S)]
    assert worker.tell(ev.ClaimRefused("a")) == [ev.Claim("b", TTL_S)]
    assert worker.tell(ev.ClaimRefused("b")) == []
    assert worker.aside[-1] == ev.Unclaim("c")
    assert worker.lane == {"a", "b"}
    assert not worker.core.lanes["cpu"].leaving


def test_nobody_is_evicted_once_nobody_waits_any_more() -> None:
    worker = Worker()
    worker.load("m", at=0.0)
    worker.grants = False
    worker.demand(100.0, n=0.1)
    worker.demand(100.1)
    assert worker.tell(ev.Claimed("n")) == []
    assert worker.aside[-1] == ev.Unclaim("n")


def test_without_the_broker_nothing_is_claimed() -> None:
    worker = Worker()
    worker.tell(ev.BrokerLost())
    assert worker.demand(0.0, n=0.1) == []
    worker.grants = False
    assert worker.tell(ev.BrokerBack(), 0.1) == [ev.Claim("n", TTL_S)]


def test_a_worker_that_drains_gives_up_its_claims_and_begins_nothing() -> None:
    worker = Worker()
    worker.demand(0.0, n=0.1)
    worker.tell(ev.DrainBegan(), 0.1)
    assert worker.aside == [ev.Unclaim("n")]
    assert worker.demand(1.0, m=5.0) == []


def test_a_model_that_a_peer_has_or_loads_is_left_to_it() -> None:
    worker = Worker()
    for state in ("resident", "loading"):
        worker.tell(ev.PeerSeen("peer", {"n": ev.PeerModel(state, 1)}))
        assert worker.demand(0.1, n=0.1) == []
    assert worker.tell(ev.PeerLost("peer")) == [ev.Load("cpu", "n")]


def test_a_peer_that_fell_silent_does_not_count() -> None:
    worker = Worker()
    worker.tell(ev.PeerSeen("peer", {"n": ev.PeerModel("resident", 1)}), 0.0)
    assert worker.demand(2.9, n=0.1) == []
    assert worker.demand(3.5, n=0.1) == [ev.Load("cpu", "n")]


def test_nor_does_it_where_nothing_is_loaded_on_demand() -> None:
    lanes, models = {"cpu": Lane("cpu")}, {"n": ModelState(spec("n"))}
    residency = Residency(lanes, models, frozenset(), Cooldowns("w", 60.0))
    limits = Limits(on_demand=False)
    packing = Packing(lanes, models, frozenset(), residency, limits, Strangers("w", 60.0))
    packing.react(ev.PeerSeen("peer", {"n": ev.PeerModel("resident", 1)}), 0.0)
    packing.decide(0.0, begin=True)
    assert packing.elsewhere("n") == 1
    packing.react(ev.DemandSeen("g", {}), 10.0)
    packing.decide(10.0, begin=True)
    assert packing.elsewhere("n") == 0


@pytest.mark.parametrize(
    ("waiting_s", "goes"), [(0.0, "m"), (KEEPS_UP_S, "m"), (2 * KEEPS_UP_S, "o")]
)
def test_a_copy_too_many_goes_before_the_last_copy_of_another(waiting_s: float, goes: str) -> None:
    """m is used far more than o; a peer has it too, and keeps up where not too much waits."""
    worker = Worker(spec("m", 40), spec("n", 40), spec("o", 40))
    for model, uses in (("m", 9), ("o", 1)):
        worker.load(model, at=0.0, mb=40)
        for number in range(uses):
            run = worker.run(f"{model}{number}", model)
            worker.tell(ev.Finished("cpu", run.batch, 0.01))
            worker.tell(ev.Settled(f"{model}{number}"))
    peer = ev.PeerSeen("peer", {"m": ev.PeerModel("resident", 1)})
    worker.tell(peer, 100.0)
    assert worker.demand(100.0, n=0.1, m=waiting_s) == []  # emptier workers are to claim n first
    assert ev.Evict("cpu", goes, "for n") in worker.tell(peer, 102.5)


def test_what_a_peer_measured_is_believed() -> None:
    worker = Worker()
    worker.tell(ev.PeerSeen("peer", {"n": ev.PeerModel("failed", 0, 80 * MB, 7.0)}))
    footprint = worker.core.models["n"].footprint
    assert (footprint.bytes, footprint.load_s) == (80 * MB, 7.0)


def test_a_hot_model_is_loaded_once_more_when_what_waits_outlasts_its_load() -> None:
    worker = Worker()
    worker.tell(ev.PeerSeen("peer", {"n": ev.PeerModel("resident", 1, 60 * MB, LOAD_S)}))
    assert worker.demand(0.1, n=1.9 * LOAD_S) == []
    assert worker.demand(0.2, n=9.0) == []
    worker.tell(ev.PeerSeen("peer", {"n": ev.PeerModel("resident", 1)}), 1.0)
    out = worker.demand(0.3 + HOT_FOR_S, n=9.0)
    assert out == [ev.Load("cpu", "n")]


def test_a_model_that_only_copies_to_be_kept_leave_no_room_for_fails_after_a_while() -> None:
    kept = msgspec.structs.replace(spec("kept", 50), min_replicas=1)
    worker = Worker(kept, spec("n"))
    assert worker.tell(ev.PeerLost("nobody")) == [ev.Load("cpu", "kept")]
    worker.loaded("kept", mb=50)
    for at in range(20):
        assert worker.demand(1.0 + at, n=0.1) == []
    assert worker.core.models["n"].state == "absent"
    worker.demand(1.0 + PATIENCE_S, n=0.1)
    reason = worker.core.models["n"].reason or ""
    assert "60 MB" in reason
    assert "50 MB for it (memory_bytes 100 MB less what is pinned or kept" in reason
    assert worker.lane == {"kept"}


def test_no_room_is_taken_that_a_copy_to_be_kept_came_to_need_meanwhile() -> None:
    kept = msgspec.structs.replace(spec("kept", 50), min_replicas=1)
    worker = Worker(kept, spec("n"))
    worker.tell(ev.PeerLost("nobody"))
    worker.loaded("kept", mb=50)
    worker.tell(ev.PeerSeen("peer", {"kept": ev.PeerModel("resident", 1)}), 10.0)
    worker.grants = False
    worker.demand(10.0, n=0.1)
    assert worker.demand(10.2, n=0.1) == [ev.Claim("n", TTL_S)]  # kept may go, as the peer has it
    worker.tell(ev.PeerLost("peer"))
    assert worker.tell(ev.Claimed("n")) == []
    assert worker.lane == {"kept"}
    assert worker.core.lanes["cpu"].memory.used == 50 * MB


def test_a_model_larger_than_any_lane_fails_with_both_sizes() -> None:
    worker = Worker(spec("n", 140), spec("m", 30), pinned=["m"])
    worker.tell(ev.Ticked())
    worker.loaded("m", mb=30)
    assert worker.demand(1.0, n=0.1) == []
    model = worker.core.models["n"]
    assert model.state == "failed"
    assert model.reason is not None
    assert "140 MB" in model.reason
    assert "70 MB" in model.reason  # what the lane has beside what is pinned
    assert worker.core.lanes["cpu"].memory.used == 30 * MB


def test_pinned_models_that_do_not_fit_together_are_an_error_at_the_start() -> None:
    with pytest.raises(ConfigError, match=r"m \(60 MB\), n \(60 MB\) .* 100 MB"):
        Worker(pinned=["m", "n"])


def test_a_pinned_model_is_never_evicted() -> None:
    worker = Worker(pinned=["m"])
    worker.tell(ev.Ticked())
    worker.loaded("m")
    for at in range(100, 1000, 100):
        assert worker.demand(float(at), n=50.0) == []
    assert worker.core.models["n"].state == "failed"


def test_what_turns_out_larger_than_it_was_thought_takes_the_place_of_an_idle_one() -> None:
    worker = Worker(spec("a", 30), spec("b", 30))
    worker.load("a", 0.0, 30)
    worker.demand(10.0, b=0.1)
    out = worker.loaded("b", mb=80)
    assert out == [ev.Evict("cpu", "a", "b holds more than was thought")]
    worker.tell(ev.Evicted("cpu", "a"))
    assert (worker.lane, worker.core.lanes["cpu"].memory.free) == ({"b"}, 20 * MB)


def test_what_turns_out_larger_goes_itself_where_the_others_are_in_use() -> None:
    worker = Worker(spec("a", 30), spec("b", 30))
    worker.load("a", 0.0, 30)
    worker.run("u", "a")
    worker.demand(10.0, b=0.1)
    (evict,) = worker.loaded("b", mb=80)
    assert isinstance(evict, ev.Evict)
    assert evict.model == "b"
    assert worker.core.models["b"].state == "absent"
    assert worker.core.models["b"].footprint.bytes == 80 * MB


def test_what_turns_out_larger_than_the_lane_fails_with_both_sizes() -> None:
    worker = Worker()
    worker.demand(0.0, n=0.1)
    assert [i for i in worker.loaded("n", mb=120) if isinstance(i, ev.Evict)]
    worker.tell(ev.Evicted("cpu", "n"))
    model = worker.core.models["n"]
    assert (model.state, worker.core.lanes["cpu"].memory.used) == ("failed", 0)
    assert "120 MB" in (model.reason or "")


def test_a_load_out_of_memory_waits_until_models_of_its_size_are_gone_and_is_tried_once_more() -> (
    None
):
    worker = Worker(spec("a", 30), spec("b", 30), spec("c", 30))
    worker.load("a", 0.0, 30)
    worker.load("b", 1.0, 30)
    worker.demand(10.0, c=0.1)
    full = ev.LoadFailed("cpu", "c", "out of memory", out_of_memory=True)
    out = worker.tell(full)
    assert out == [ev.Evict("cpu", "a", "for c"), ev.Evict("cpu", "b", "for c")]
    assert worker.tell(ev.Evicted("cpu", "a")) == []
    assert worker.tell(ev.Evicted("cpu", "b")) == [ev.Load("cpu", "c")]
    worker.tell(full)
    assert worker.core.models["c"].state == "failed"


def test_a_load_out_of_memory_waits_for_its_turn_while_the_others_are_at_work() -> None:
    worker = Worker(spec("a", 30), spec("b", 30))
    worker.load("a", 0.0, 30)
    run = worker.run("u", "a")
    worker.demand(3.0, a=0.1, b=0.1)
    full = ev.LoadFailed("cpu", "b", "out of memory", out_of_memory=True)
    assert worker.tell(full) == []
    assert worker.core.models["b"].state == "absent"
    assert worker.core.lanes["cpu"].memory.used == 30 * MB
    for at in range(4, 12):  # not once a second: nothing would have changed
        assert worker.demand(float(at), a=0.1, b=0.1) == []
    worker.demand(15.0, a=0.1, b=0.1)
    assert worker.core.lanes["cpu"].leaving == {"a"}
    out = worker.tell(ev.Finished("cpu", run.batch, 0.01))
    assert out == [ev.Reply("u"), ev.Evict("cpu", "a", "for b")]
    assert worker.tell(ev.Evicted("cpu", "a")) == [ev.Load("cpu", "b")]


def test_a_load_out_of_memory_with_nothing_to_evict_fails() -> None:
    worker = Worker()
    worker.demand(0.0, n=0.1)
    worker.tell(ev.LoadFailed("cpu", "n", "out of memory", out_of_memory=True))
    assert worker.core.models["n"].state == "failed"
    assert worker.core.models["n"].failures == 0  # it may fit elsewhere


def test_an_item_out_of_memory_is_tried_again_without_an_idle_neighbour_and_then_fails() -> None:
    worker = Worker(spec("a", 30), spec("b", 30))
    worker.load("a", 0.0, 30)
    worker.load("b", 1.0, 30)
    run = worker.run("u", "a")
    full = ErrorInfo("out_of_memory", "no room")
    out = worker.tell(ev.BatchFailed("cpu", run.batch, full))
    assert out == [ev.Evict("cpu", "b", "a batch of a was out of memory")]
    assert worker.tell(ev.Ticked()) == []  # the memory is not there yet
    (again,) = worker.tell(ev.Evicted("cpu", "b"))
    assert isinstance(again, ev.Run)
    assert again.items == run.items
    failed, reply = worker.tell(ev.BatchFailed("cpu", again.batch, full))
    assert isinstance(failed, ev.FailItem)
    assert reply == ev.Reply("u")


def test_batches_run_while_a_model_is_loaded_beside_them() -> None:
    worker = Worker(spec("a", 30), spec("b", 30))
    worker.load("a", 0.0, 30)
    assert worker.demand(10.0, b=0.1) == [ev.Load("cpu", "b")]
    run = worker.run("u", "a")
    assert worker.tell(ev.Finished("cpu", run.batch, 0.01)) == [ev.Reply("u")]


def test_a_device_with_memory_of_its_own_says_what_its_lane_may_hold() -> None:
    worker = Worker(lane_bytes={})
    worker.starts = False
    worker.demand(0.0, n=0.1)
    worker.tell(ev.RuntimeStarted("cpu", "fake", device_bytes=1000 * MB))
    assert worker.core.lanes["cpu"].memory.budget == int(1000 * MB * DEVICE_SHARE)


def test_a_device_too_small_for_a_pinned_model_fails_it_with_both_sizes() -> None:
    worker = Worker(lane_bytes={}, pinned=["m"])
    worker.starts = False
    worker.tell(ev.Ticked())
    worker.tell(ev.RuntimeStarted("cpu", "fake", device_bytes=50 * MB))
    assert worker.core.pinned_failed() == ["m"]
    assert "45 MB" in (worker.core.models["m"].reason or "")


def test_one_budget_for_all_kinds_of_runtime_of_a_lane() -> None:
    other = ModelSpec("o", "other", 512, BUDGET, (0.0, 1e-3, 0.0, 0.0), 60 * MB, LOAD_S)
    worker = Worker(spec("m"), other)
    worker.load("m", at=0.0)
    assert ev.Evict("cpu", "m", "for o") in worker.demand(100.0, o=0.1)
    worker.starts = False
    assert worker.tell(ev.Evicted("cpu", "m")) == [ev.StartRuntime("cpu", "other")]


# --- a process whose memory does not come back --------------------------------------------------


def stats(worker: Worker, rss: int, at: float) -> list[ev.Instruction]:
    held = dict.fromkeys(worker.lane, 60 * MB)
    return worker.tell(ev.StatsSeen("cpu", "fake", rss, held), at)


def test_a_process_is_asked_now_and_then_and_after_an_eviction() -> None:
    worker = Worker()
    worker.load("m", at=0.0)
    for at in (ASK_S, 2 * ASK_S, 2 * ASK_S + 1.0):
        worker.tell(ev.Ticked(), at)
    assert worker.aside.count(ev.AskStats("cpu", "fake")) == 2
    worker.demand(70.0, n=0.1)
    worker.tell(ev.Evicted("cpu", "m"))
    worker.tell(ev.Ticked(), 70.0 + ASK_AFTER_EVICTION_S)
    assert worker.aside.count(ev.AskStats("cpu", "fake")) == 3


def test_a_process_that_keeps_what_it_let_go_is_started_anew_and_its_models_with_it() -> None:
    worker = Worker()
    worker.load("m", at=0.0)
    stats(worker, 400 * MB, 10.0)
    run = worker.run("u")
    for reading in range(READINGS):
        assert stats(worker, 401 * MB + SLACK_BYTES + 15 * MB, 20.0 + reading) == []
    out = worker.tell(ev.Finished("cpu", run.batch, 0.01), 30.0)
    assert out == [ev.Reply("u"), ev.StopRuntime("cpu", "fake")]
    worker.tell(ev.Settled("u"))
    late = ev.UnitHead("late", "late", "m", Features(10, 1), 6000.0)
    worker.tell(ev.Arrived(late, 1, 0))
    assert worker.tell(ev.Prepared([("late", [10])])) == []
    assert worker.tell(ev.RuntimeStopped("cpu", "fake"), 31.0) == [ev.Load("cpu", "m")]
    (again,) = worker.loaded("m")
    assert isinstance(again, ev.Run)
    assert again.items == [ev.Item("late", 0, 10)]


def test_a_process_is_not_started_anew_for_one_high_reading_nor_again_and_again() -> None:
    worker = Worker()
    worker.load("m", at=0.0)
    stats(worker, 100 * MB, 1.0)
    high = 2 * SLACK_BYTES
    for at in range(10):
        assert stats(worker, high if at % READINGS else 100 * MB, 2.0 + at) == []
    out = [i for at in range(READINGS) for i in stats(worker, high, 20.0 + at)]
    assert out[-1] == ev.StopRuntime("cpu", "fake")
    worker.tell(ev.RuntimeStopped("cpu", "fake"), 30.0)
    worker.loaded("m")
    stats(worker, 100 * MB, 31.0)
    for at in range(20):
        assert stats(worker, high, 32.0 + at) == []
    out = [i for at in range(3) for i in stats(worker, high, 23.0 + EVERY_S + at)]
    assert ev.StopRuntime("cpu", "fake") in out


def test_a_process_over_the_ceiling_is_started_anew_even_if_it_never_had_less() -> None:
    worker = Worker(rss_ceiling=2.0)
    worker.load("m", at=0.0)
    out = [i for at in range(READINGS) for i in stats(worker, 201 * MB, 1.0 + at)]
    assert ev.StopRuntime("cpu", "fake") in out


def test_what_a_device_holds_is_not_expected_in_the_process() -> None:
    worker = Worker(lane_bytes={})
    worker.starts = False
    worker.demand(0.0, m=0.1)
    worker.tell(ev.RuntimeStarted("cpu", "fake", device_bytes=10**12))
    worker.loaded("m", mb=500_000)
    for at in range(10):
        assert not any(isinstance(i, ev.StopRuntime) for i in stats(worker, 2000 * MB, 1.0 + at))


# --- several lanes --------------------------------------------------------------------------------


def two_lanes() -> WorkerCore:
    """Lane `a` holds 40 MB, `b` nothing."""
    specs = [spec("m", 40), spec("n", 30), spec("o", 70)]
    lanes = {"a": 100 * MB, "b": 100 * MB}
    core = WorkerCore(WorkerConfig(lanes=["a", "b"], models=specs, lane_bytes=lanes))
    assert load_of(core, "m", 0.0).lane == "a"
    core.handle(ev.Loaded("a", "m", 40 * MB, LOAD_S), 0.1)
    core.handle(ev.DemandSeen("g", {}), 0.2)
    return core


def load_of(core: WorkerCore, model: str, at: float, seconds: float = 0.1) -> ev.Load:
    """Ask for a model; the load that follows once its claim is granted and the runtime is up."""
    out = core.handle(ev.DemandSeen("g", {model: seconds}), at)
    while not any(isinstance(i, ev.Load) for i in out):
        (do,) = [i for i in out if isinstance(i, ev.Claim | ev.StartRuntime)]
        if isinstance(do, ev.Claim):
            out = core.handle(ev.Claimed(do.model), at)
        else:
            out = core.handle(ev.RuntimeStarted(do.lane, do.kind), at)
    return next(i for i in out if isinstance(i, ev.Load))


def test_the_lane_with_most_room_is_taken() -> None:
    assert load_of(two_lanes(), "n", 1.0).lane == "b"


def test_no_lane_evicts_for_what_another_has_room_for() -> None:
    assert load_of(two_lanes(), "o", 100.0).lane == "b"


def test_a_hot_model_is_loaded_on_the_next_lane_too() -> None:
    core = two_lanes()
    core.handle(ev.DemandSeen("g", {"m": 9.0}), 10.0)
    assert load_of(core, "m", 10.1 + HOT_FOR_S, 9.0).lane == "b"


def test_two_lanes_never_let_go_of_the_same_model_at_once() -> None:
    """Both hold m and its card asks for one copy; n and o need its place on either lane."""
    specs = [msgspec.structs.replace(spec("m"), min_replicas=1), spec("n"), spec("o")]
    lanes = {"a": 100 * MB, "b": 100 * MB}
    core = WorkerCore(WorkerConfig(lanes=["a", "b"], models=specs, lane_bytes=lanes))
    assert load_of(core, "m", 0.0).lane == "a"
    core.handle(ev.Loaded("a", "m", 60 * MB, LOAD_S), 1.0)
    core.handle(ev.DemandSeen("g", {"m": 9.0}), 10.0)
    assert load_of(core, "m", 10.0 + 2 * HOT_FOR_S, 9.0).lane == "b"
    core.handle(ev.Loaded("b", "m", 60 * MB, LOAD_S), 13.0)
    for unit in ("u", "v"):
        head = ev.UnitHead(unit, unit, "m", Features(10, 1), 6000.0)
        core.handle(ev.Arrived(head, 1, 0), 50.0)
    out = core.handle(ev.Prepared([("u", [10]), ("v", [10])]), 50.0)
    runs = [i for i in out if isinstance(i, ev.Run)]
    assert {run.lane for run in runs} == {"a", "b"}
    todo = core.handle(ev.DemandSeen("g", {"n": 9.0, "o": 9.0}), 100.0)
    while claims := [i for i in todo if isinstance(i, ev.Claim)]:
        todo = [i for claim in claims for i in core.handle(ev.Claimed(claim.model), 100.0)]
    for pull in [i for i in todo if isinstance(i, ev.Pull)]:
        core.handle(ev.PullEnded(pull.pull, found_all=True), 100.0)
    out = [i for run in runs for i in core.handle(ev.Finished(run.lane, run.batch, 0.01), 100.1)]
    gone = [i for i in out if isinstance(i, ev.Evict)]
    assert [evict.model for evict in gone] == ["m"]


def test_a_pinned_model_that_had_no_room_gets_it_once_its_cooldown_is_over() -> None:
    worker = Worker(spec("m", 40), spec("n", 40), pinned=["m"], cooldown_s=10.0)
    worker.tell(ev.Ticked())
    worker.tell(ev.LoadFailed("cpu", "m", "gone"))
    worker.load("n", 1.0, 40)
    worker.run("u", "n")
    assert worker.tell(ev.Ticked(), 10.0) == [ev.Load("cpu", "m")]
    (evict,) = worker.loaded("m", mb=70)
    assert isinstance(evict, ev.Evict)
    assert evict.model == "m"  # n runs
    worker.tell(ev.Evicted("cpu", "m"))
    assert worker.core.pinned_failed() == ["m"]
    worker.tell(ev.Finished("cpu", 1, 0.01))
    worker.tell(ev.Ticked(), 20.0)
    worker.tell(ev.PeerLost("nobody"), 20.1)
    assert set(worker.core.lanes["cpu"].evicting) == {"n"}
    assert worker.tell(ev.Evicted("cpu", "n")) == [ev.Load("cpu", "m")]


def test_one_eviction_after_the_other_does_not_put_off_the_question_what_is_held() -> None:
    worker = Worker()
    worker.load("m", 0.0)
    recycle = Recycle(worker.core.lanes, worker.core.models, 0.0)
    asked: list[ev.Instruction] = []
    for step in range(4):
        now = 100.0 + step * ASK_AFTER_EVICTION_S / 2
        asked += recycle.decide(now)
        recycle.evicted(worker.core.lanes["cpu"], "fake", now)
    assert asked == [ev.AskStats("cpu", "fake")]


def test_a_load_that_never_ends_is_ended_with_its_process() -> None:
    worker = Worker()
    worker.demand(0.0, n=0.1)
    assert worker.rings_until(LEAST_LIMIT_S - 0.1) == []
    assert worker.rings_until(2 * LEAST_LIMIT_S - 1.0) == [ev.KillRuntime("cpu", "fake")]
    worker.starts = False
    out = worker.tell(ev.RuntimeDied("cpu", "fake", "exit status -9"))
    assert out == [ev.StartRuntime("cpu", "fake")]


def test_a_worker_that_was_stopped_takes_no_load_for_hung() -> None:
    worker = Worker()
    worker.demand(0.0, n=0.1)
    assert worker.tell(ev.Ticked(), 10 * LEAST_LIMIT_S) == []
    assert worker.loaded("n") == []
    assert worker.lane == {"n"}


def test_a_load_that_computes_is_given_longer() -> None:
    worker = Worker()
    worker.demand(0.0, n=0.1)
    used_s, kills = 0.0, 0
    while not kills and worker.now < 20 * LEAST_LIMIT_S:
        used_s += 0.3
        kills += worker.rings_until(worker.now + 1.5).count(ev.KillRuntime("cpu", "fake"))
        if ev.AskProcessor("cpu", "fake") in worker.aside:
            worker.aside.clear()
            worker.tell(ev.ProcessorSeen("cpu", "fake", used_s))
    assert 5 * LEAST_LIMIT_S < worker.now < 10 * LEAST_LIMIT_S


def test_an_eviction_that_never_ends_is_ended_with_its_process() -> None:
    worker = Worker()
    worker.load("m", at=0.0)
    worker.demand(100.0, n=0.1)
    worker.demand(101.0, n=0.1)
    assert set(worker.core.lanes["cpu"].evicting) == {"m"}
    assert worker.rings_until(100.0 + EVICT_LIMIT_S - 1.0) == []
    assert worker.rings_until(102.0 + EVICT_LIMIT_S) == [ev.KillRuntime("cpu", "fake")]
    worker.demand(worker.now, n=0.1)
    out = worker.tell(ev.RuntimeDied("cpu", "fake", "exit status -9"))
    assert ev.Load("cpu", "n") in out


# --- files that are not here ----------------------------------------------------------------------


def not_here(name: str, mb: int = 60) -> ModelSpec:
    return msgspec.structs.replace(spec(name, mb), fetched=False)


def test_files_are_fetched_under_the_claim_and_nobody_makes_room_before_they_are_here() -> None:
    worker = Worker(spec("m"), not_here("n"))
    worker.load("m", at=0.0)
    assert worker.demand(100.0, n=0.1) == [ev.Fetch("n", LIMIT_S)]
    assert worker.core.models["n"].state == "loading"  # others leave it to us
    worker.demand(102.0, n=0.1)
    assert worker.lane == {"m"}
    assert worker.tell(ev.Fetched("n")) == [ev.Evict("cpu", "m", "for n")]
    assert ev.Unclaim("n") not in worker.aside
    assert worker.tell(ev.Evicted("cpu", "m")) == [ev.Load("cpu", "n")]


def test_room_is_made_for_what_the_files_tell() -> None:
    worker = Worker(spec("m"), not_here("n", 20))
    worker.load("m", at=0.0)
    assert worker.demand(100.0, n=0.1) == [ev.Fetch("n", LIMIT_S)]
    worker.demand(102.0, n=0.1)
    assert worker.tell(ev.Fetched("n", 60 * MB)) == [ev.Evict("cpu", "m", "for n")]


def test_the_place_of_a_pinned_model_is_as_large_as_its_files_tell() -> None:
    worker = Worker(not_here("m", 20), spec("n", 40), pinned=["m"])
    worker.tell(ev.Ticked())
    assert worker.tell(ev.Fetched("m", 70 * MB)) == [ev.Load("cpu", "m")]
    assert worker.core.lanes["cpu"].memory.used >= 70 * MB
    assert worker.demand(1.0, n=0.1) == [], "it does not fit beside"


def test_a_pinned_model_whose_files_are_too_large_is_refused_before_it_is_loaded() -> None:
    worker = Worker(not_here("m", 20), spec("n", 40), pinned=["m", "n"])
    worker.tell(ev.Ticked())
    worker.loaded("n", 40)
    assert worker.tell(ev.Fetched("m", 90 * MB)) == []
    model = worker.core.models["m"]
    assert (model.state, worker.core.pinned_failed()) == ("failed", ["m"])
    assert "estimated to hold 90 MB and lane cpu has 60 MB for it" in (model.reason or "")
    assert "raise memory_bytes" in (model.reason or "")
    assert worker.core.lanes["cpu"].memory.used == 40 * MB


def test_another_model_is_loaded_while_files_are_fetched() -> None:
    worker = Worker(not_here("n"), spec("o", 20))
    assert worker.demand(0.0, n=9.0) == [ev.Fetch("n", LIMIT_S)]
    assert worker.demand(0.1, n=9.0, o=0.1) == [ev.Load("cpu", "o")]
    worker.loaded("o", mb=20)
    assert worker.tell(ev.Fetched("n"), 1.0) == [ev.Load("cpu", "n")]


def test_a_model_whose_files_cannot_be_had_fails_and_is_asked_for_again_after_its_cooldown() -> (
    None
):
    worker = Worker(not_here("n"), cooldown_s=10.0)
    worker.demand(0.0, n=0.1)
    assert worker.tell(ev.FetchFailed("n", "no such file")) == []
    assert (worker.core.models["n"].state, worker.core.models["n"].reason) == (
        "failed",
        "no such file",
    )
    assert worker.demand(9.0, n=0.1) == []
    assert worker.demand(10.1, n=0.1) == [ev.Fetch("n", LIMIT_S)]


def test_pinned_models_are_fetched_together_and_loaded_as_they_come() -> None:
    worker = Worker(not_here("m", 40), not_here("n", 40), pinned=["m", "n"])
    assert worker.tell(ev.Ticked()) == [ev.Fetch("m", LIMIT_S), ev.Fetch("n", LIMIT_S)]
    assert worker.tell(ev.Fetched("n")) == [ev.Load("cpu", "n")]
    worker.loaded("n", 40)
    assert worker.tell(ev.Fetched("m")) == [ev.Load("cpu", "m")]
    worker.loaded("m", 40)
    assert worker.lane == {"m", "n"}


def test_a_model_whose_runtime_is_not_installed_here_is_no_failure_for_others() -> None:
    worker = Worker(not_here("n"), cooldown_s=10.0)
    worker.demand(0.0, n=0.1)
    assert worker.tell(ev.FetchFailed("n", "pip install 'shoal[onnx]'", unserved=True)) == []
    model = worker.core.models["n"]
    assert (model.state, model.unserved, model.failures) == ("failed", True, 0)
    assert worker.demand(9.0, n=0.1) == []
    assert worker.demand(10.1, n=0.1) == [ev.Fetch("n", LIMIT_S)]
    worker.tell(ev.FetchFailed("n", "no such file"), 10.2)
    assert (model.unserved, model.failures) == (False, 1)
