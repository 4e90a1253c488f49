"""What is pulled, for which model, what is given back, and who gets which lane: exact instructions."""

from collections import Counter

import pytest

from shoal.core import events as ev
from shoal.core.batcher import BULK_SHARE, Budget
from shoal.core.config import WorkerConfig
from shoal.core.models import ModelSpec
from shoal.core.plan import GROWTH
from shoal.core.returning import MAX_DELIVERED, MOST_RETURNED
from shoal.core.urgency import FULL, turn_of
from shoal.core.worker import WorkerCore
from shoal.values import Features, TrafficClass

#: One token, one millisecond; a batch may have 100 tokens.
BUDGET = Budget(seconds=0.1, tokens=8192, items=64)
MODELS = ["a", "b", "c"]
PULL_MARGIN_S = 0.004


def spec(name: str) -> ModelSpec:
    return ModelSpec(name, "fake", 40, BUDGET, (0.0, 1e-3, 0.0, 0.0))


class Desk:
    """A worker on which all models are resident, and what it said."""

    def __init__(self, lanes: int = 1, peers: bool = False, models: list[str] = MODELS) -> None:
        names = [f"lane{number}" for number in range(lanes)]
        config = WorkerConfig(
            names, [spec(name) for name in models], pinned=models, pull_margin_s=PULL_MARGIN_S
        )
        self.core = WorkerCore(config)
        self.now = 0.0
        self.said: list[ev.Instruction] = []
        self.do(ev.Ticked())
        for lane in names:
            self.do(ev.RuntimeStarted(lane, "fake"))
            for model in models:
                self.do(ev.Loaded(lane, model, 1, 0.1))
        if peers:
            self.do(ev.PeerSeen("peer", {m: ev.PeerModel("resident", 1) for m in models}))

    def do(self, event: ev.Event) -> list[ev.Instruction]:
        out = self.core.handle(event, self.now)
        self.said += out
        return out

    def at(self, now: float) -> list[ev.Instruction]:
        """Let time pass, as the shell does."""
        out: list[ev.Instruction] = []
        while (wake := self.core.next_wake(self.now)) is not None and wake < now:
            self.now = max(self.now, wake)
            out += self.do(ev.Ticked())
        self.now = now
        return out + self.do(ev.Ticked())

    def pull_of(self, model: str, klass: TrafficClass = "work") -> int:
        """The pull that was opened last for this model."""
        pulls = [i for i in self.said if isinstance(i, ev.Pull)]
        return [p.pull for p in pulls if (p.model, p.klass) == (model, klass)][-1]

    def arrive(
        self,
        unit: str,
        model: str = "a",
        tokens: int = 10,
        *,
        pending: int = 0,
        published: float | None = None,
        klass: TrafficClass = "work",
        deadline: float = 600.0,
        delivered: int = 1,
    ) -> list[ev.Instruction]:
        """A unit comes over the model's latest pull."""
        head = ev.UnitHead(
            unit,
            unit,
            model,
            Features(tokens, 1, tokens**2),
            deadline,
            klass,
            published=self.now if published is None else published,
            delivered=delivered,
        )
        return self.do(ev.Arrived(head, self.pull_of(model, klass), pending))

    def prepare(self, unit: str, *lengths: int) -> list[ev.Run]:
        return runs(self.do(ev.Prepared([(unit, list(lengths))])))

    def busy(self, tokens: int = 50) -> None:
        """One batch of model `a` runs on each lane, from now on."""
        for number, _ in enumerate(self.core.lanes):
            self.arrive(f"busy{number}{self.now}", "a", tokens)
            assert self.prepare(f"busy{number}{self.now}", tokens)
            self.do(ev.PullEnded(self.pull_of("a")))


def runs(out: list[ev.Instruction]) -> list[ev.Run]:
    return [i for i in out if isinstance(i, ev.Run)]


def pulls(out: list[ev.Instruction]) -> list[tuple[str, int, bool, str]]:
    return [(i.model, i.count, i.standing, i.klass) for i in out if isinstance(i, ev.Pull)]


# --- which model next -----------------------------------------------------------------------------


@pytest.mark.parametrize(("older_s", "next_"), [(0.02, "b"), (0.04, "c"), (0.5, "c")])
def test_the_oldest_is_pulled_next_but_a_full_batch_counts_as_somewhat_older(
    older_s: float, next_: str
) -> None:
    desk = Desk(peers=True)
    desk.busy()
    desk.now = 0.01
    desk.arrive("c1", "c", pending=1, published=-0.1 - older_s)  # both go back: the lane is busy
    desk.arrive("b1", "b", pending=400, published=-0.1)
    assert [pull[0] for pull in pulls(desk.at(0.047))] == [next_]


def test_a_full_batch_counts_as_an_eighth_of_it_older_for_each_model_in_use_and_a_quarter_second_at_most() -> (
    None
):
    older_s = [-turn_of(0.0, 5.0, 0.1, in_use) for in_use in (1, 8, 24, 200)]
    assert older_s == pytest.approx([0.0125 * share for share in (1, 8, 20, 20)])
    assert turn_of(1.0, 0.05, 0.1, 24) == pytest.approx(1.0 - 0.15)
    assert turn_of(1.0, 0.05, 0.02, 24) == pytest.approx(1.0 - 0.06)


def test_a_queue_is_taken_for_as_full_as_it_fills_up_in_the_time() -> None:
    desk = Desk(peers=True)
    for step in range(20):  # of `b` ten units come every tenth of a second, of `c` one
        desk.now = step * 0.1
        for model, count in (("b", 10), ("c", 1)):
            desk.arrive(f"{model}{step}", model, 1, pending=count - 1)
            desk.do(ev.PullEnded(desk.pull_of(model), found_all=True))
    sources = desk.core.models["b"].work, desk.core.models["c"].work
    assert [source.expected(desk.now + 0.1) for source in sources] == pytest.approx(
        [10, 1], rel=0.2
    )


def flooded(models: int, deadline: float) -> list[str]:
    """One lane, more work of each model than it can do, and a lone request: what ran before that."""
    floods = [f"m{number}" for number in range(models)]
    desk = Desk(peers=True, models=["a", "rare", *floods])
    desk.busy()
    for flood in floods:
        desk.arrive(f"first{flood}", flood, 95, pending=400)  # goes back: the lane is busy
    ran: list[str] = []
    for batch in range(1, 4 * models):
        if batch == 2 * models:
            ran.clear()
            desk.arrive("rare", "rare", 95, deadline=desk.now + deadline)
        lane = next(iter(desk.core.lanes.values()))
        (pull,) = pulls(desk.at(lane.free_at - 0.0035))
        if pull[0] == "rare":
            return ran
        ran.append(pull[0])
        desk.arrive(f"u{batch}", pull[0], 95, pending=400)
        desk.prepare(f"u{batch}", 95)
        desk.do(ev.PullEnded(desk.pull_of(pull[0])))
        desk.now = lane.free_at
        desk.do(ev.Finished("lane0", batch, lane.batches[0].predicted_s))
    raise AssertionError("it never came")


@pytest.mark.parametrize("models", [3, 12, 40])
def test_a_lone_request_waits_for_one_batch_of_each_flood_of_its_age_and_three_more(
    models: int,
) -> None:
    ran = flooded(models, deadline=600.0)
    assert len(ran) <= models + FULL
    assert max(Counter(ran).values()) <= 2


def test_a_lone_request_with_little_time_is_in_time_beside_floods() -> None:
    assert len(flooded(8, deadline=0.3)) < 3


def test_a_deadline_that_is_near_counts_before_age() -> None:
    desk = Desk(peers=True)
    desk.busy()
    desk.now = 0.01
    desk.arrive("c1", "c", pending=3, published=-0.2)
    desk.arrive("b1", "b", pending=400, published=0.0, deadline=0.3)
    (pull,) = pulls(desk.at(0.047))
    assert pull[0] == "b"


def test_what_is_only_guessed_counts_as_younger() -> None:
    desk = Desk()
    desk.busy()
    desk.now = 0.01
    desk.arrive("b1", "b", 1, pending=7, published=0.0)  # kept: nobody else could take it
    # Of `a` nothing was told since 0.0, but of `b` it is known that seven wait.
    assert [pull[0] for pull in pulls(desk.at(0.047))] == ["b"]


@pytest.mark.parametrize(("older_s", "first"), [(0.001, "b"), (0.2, "c")])
def test_of_what_is_on_the_shelf_the_oldest_goes_first_unless_another_is_fuller(
    older_s: float, first: str
) -> None:
    desk = Desk()
    desk.busy()
    desk.now = 0.01
    desk.arrive("c1", "c", 5, published=0.002 - older_s)
    desk.arrive("b1", "b", 5, published=0.002)
    desk.prepare("b1", *[5] * 10)
    desk.prepare("c1", 5)
    desk.at(0.047)
    desk.do(ev.PullEnded(desk.pull_of("c"), found_all=True))
    (run,) = runs(desk.at(0.049))
    assert run.model == first


def test_a_batch_that_is_due_first_is_not_overtaken_while_its_items_are_coming() -> None:
    desk = Desk()
    desk.busy()
    desk.now = 0.01
    desk.arrive("c1", "c", 5, published=0.001)
    desk.arrive("b1", "b", 5, published=0.002)
    desk.prepare("b1", 5)
    desk.prepare("c1", 5)
    assert pulls(desk.at(0.047)) == [("c", 16, False, "work")]
    assert runs(desk.at(0.0495)) == []
    (run,) = runs(desk.do(ev.Finished("lane0", 1, 0.05)))
    assert run.model == "c"


def test_bulk_that_waits_for_long_gives_its_model_no_earlier_turn() -> None:
    desk = Desk()
    desk.do(ev.DemandSeen("g", {}, {"b": 5.0}))
    desk.busy()
    desk.now = 0.01
    desk.arrive("k1", "b", 5, published=-60.0, klass="bulk")
    desk.prepare("k1", *[5] * 40)
    for unit, model, published in (("c1", "c", 0.001), ("b1", "b", 0.002)):
        desk.arrive(unit, model, 5, published=published)
        desk.prepare(unit, 5)
    (run,) = runs(desk.do(ev.Finished("lane0", 1, 0.05)))
    assert run.model == "c"


def test_a_pull_that_brought_nothing_tells_not_how_long_preparing_takes() -> None:
    desk = Desk()
    desk.busy()
    ((model, *_),) = pulls(desk.at(0.047))
    desk.do(ev.PullEnded(desk.pull_of(model), found_all=True))
    desk.now = 0.05
    desk.do(ev.Finished("lane0", 1, 0.05))
    desk.now = 5.0
    desk.arrive("late", model, 50)
    (run,) = desk.prepare("late", 50)
    assert desk.core.next_wake(desk.now) == pytest.approx(5.0 + run.predicted_s - PULL_MARGIN_S)


# --- standing pulls -------------------------------------------------------------------------------


def test_each_model_has_one_standing_pull_and_a_busy_lane_leaves_them_open() -> None:
    desk = Desk(peers=True)
    desk.busy()
    opened = [i.model for i in desk.said if isinstance(i, ev.Pull) and i.standing]
    assert opened == MODELS
    assert not any(isinstance(i, ev.Withdraw) for i in desk.said)


def test_a_unit_that_was_given_back_is_not_asked_for_before_a_lane_is_about_to_be_free() -> None:
    desk = Desk(peers=True)
    desk.busy()
    desk.now = 0.01
    assert desk.arrive("b1", "b") == [ev.Return("b1", 0.0)]
    assert pulls(desk.at(0.045)) == []
    assert pulls(desk.at(0.047)) == [("b", 9, False, "work")]


# --- bulk -----------------------------------------------------------------------------------------


def bulk(desk: Desk, *models: str) -> list[ev.Instruction]:
    return desk.do(ev.DemandSeen("g", {}, dict.fromkeys(models, 5.0)))


def test_bulk_is_asked_for_only_where_a_gateway_says_that_there_is_some() -> None:
    desk = Desk()
    assert pulls(desk.at(5.0)) == []
    assert pulls(bulk(desk, "b")) == [("b", 1, True, "bulk")]
    out = desk.arrive("k1", "b", 10, pending=100, klass="bulk")
    assert pulls(out) == [("b", 4, False, "bulk")]  # half a batch of ten units, less the one here


def test_bulk_waits_while_interactive_work_is_known_to_wait() -> None:
    desk = Desk(peers=True)
    bulk(desk, "b")
    desk.busy()
    desk.now = 0.01
    desk.arrive("c1", "c", pending=400)
    desk.arrive("k1", "b", pending=400, klass="bulk")
    assert pulls(desk.at(0.047)) == [("c", 9, False, "work")]


def test_an_interactive_unit_waits_for_one_short_batch_of_bulk_at_most() -> None:
    desk = Desk()
    bulk(desk, "b")
    desk.arrive("k1", "b", 10, pending=0, klass="bulk")
    (first,) = desk.prepare("k1", *[10] * 40)
    assert first.predicted_s <= BUDGET.seconds * BULK_SHARE
    desk.now = 0.01
    desk.arrive("hi", "c", 5)
    assert desk.prepare("hi", 5) == []
    desk.now = first.predicted_s
    (run,) = runs(desk.do(ev.Finished("lane0", first.batch, first.predicted_s)))
    assert run.items[0].unit == "hi"


# --- too much -------------------------------------------------------------------------------------


def full_shelf(desk: Desk, units: int, tokens: int, delivered: int = 1) -> list[ev.Return]:
    """Units that were thought to be tiny and are not."""
    desk.busy(90)
    desk.at(0.087)
    for number in range(units):
        desk.arrive(f"u{number}", "a", 1, pending=units - number - 1, delivered=delivered)
    lengths = [(f"u{number}", [tokens]) for number in range(units)]
    return [i for i in desk.do(ev.Prepared(lengths)) if isinstance(i, ev.Return)]


def test_what_turns_out_to_be_far_too_much_goes_to_others_the_latest_first() -> None:
    desk = Desk(peers=True)
    returned = full_shelf(desk, 20, 50)
    assert [r.unit for r in returned] == [f"u{n}" for n in range(19, 1, -1)]
    assert {r.delay_s for r in returned} == {0.0}
    assert desk.core.models["a"].waiting_s <= BUDGET.seconds + 0.05
    assert desk.core.models["a"].work.pending == 18
    assert pulls(desk.said[-2:]) == []  # and is not asked for at once


def test_what_is_too_much_stays_where_nobody_else_could_take_it_or_it_was_handed_round() -> None:
    assert full_shelf(Desk(), 20, 50) == []
    assert full_shelf(Desk(peers=True), 20, 50, delivered=MAX_DELIVERED) == []


def test_no_event_gives_back_more_than_a_bounded_number() -> None:
    assert len(full_shelf(Desk(peers=True), 3 * MOST_RETURNED, 50)) == MOST_RETURNED


def test_a_batch_that_took_far_longer_than_predicted_lets_what_waits_behind_it_go() -> None:
    desk = Desk(peers=True)
    desk.busy(90)
    desk.at(0.087)
    for number in range(9):
        desk.arrive(f"u{number}", "a", 10, pending=8 - number)
        desk.prepare(f"u{number}", 10)
    # 0.09 s of work wait: enough for one batch, until a batch takes ten times what was thought
    desk.do(ev.PullEnded(desk.pull_of("a"), found_all=True))
    batch = next(iter(desk.core.lanes.values())).batches[0].id
    desk.now = 0.9
    out = desk.do(ev.Finished("lane0", batch, 0.9))
    assert len([i for i in out if isinstance(i, ev.Return)]) > 0


# --- several lanes --------------------------------------------------------------------------------


def test_idle_lanes_split_what_comes_together() -> None:
    desk = Desk(lanes=4)
    desk.arrive("u", "a", 80)
    started = desk.prepare("u", *[5] * 16)
    assert sorted((run.lane, len(run.items)) for run in started) == [
        (f"lane{number}", 4) for number in range(4)
    ]


def test_four_lanes_do_equal_work_of_one_model() -> None:
    desk = Desk(lanes=4)
    done_s = dict.fromkeys(desk.core.lanes, 0.0)
    running: list[tuple[float, ev.Run]] = []
    waiting = 300
    desk.arrive("u0", "a", 20, pending=waiting)
    desk.prepare("u0", 20)
    heard = 0
    while True:
        while heard < len(desk.said):
            do = desk.said[heard]
            heard += 1
            if isinstance(do, ev.Run):
                running.append((desk.now + do.predicted_s, do))
            if isinstance(do, ev.Pull) and do.model == "a" and not do.standing:
                for _ in range(min(do.count, waiting)):
                    head = ev.UnitHead(f"u{waiting}", f"u{waiting}", "a", Features(20), 600.0)
                    waiting -= 1
                    desk.do(ev.Arrived(head, do.pull, waiting))
                    desk.do(ev.Prepared([(head.id, [20])]))
                desk.do(ev.PullEnded(do.pull, found_all=not waiting))
        if not running:
            break
        running.sort(key=lambda one: one[0])
        wake = desk.core.next_wake(desk.now)
        if wake is not None and wake < running[0][0]:
            desk.now = max(desk.now, wake)
            desk.do(ev.Ticked())
            continue
        desk.now, run = running.pop(0)
        done_s[run.lane] += run.predicted_s
        desk.do(ev.Finished(run.lane, run.batch, run.predicted_s))
    assert sum(done_s.values()) > 5.0
    assert max(done_s.values()) - min(done_s.values()) <= BUDGET.seconds + 1e-6


def test_credit_is_one_batch_for_each_lane_that_is_about_to_be_free() -> None:
    desk = Desk(lanes=3)
    desk.core.models["b"].unit_seen(0.01)
    out = desk.arrive("b1", "b", 10, pending=500)
    (pull,) = [p for p in pulls(out) if not p[2]]
    assert pull[1] == 29  # three batches of ten units, less the one that is here


def batch_pulls(out: list[ev.Instruction]) -> list[tuple[str, int]]:
    return [(i.model, i.count) for i in out if isinstance(i, ev.Pull) and not i.standing]


def with_a_batch(peer_lanes: int) -> Desk:
    """A lane whose batch of 40 ms is nearly done, and others that have its model too."""
    desk = Desk()
    if peer_lanes:
        desk.do(ev.PeerSeen("peer", {"a": ev.PeerModel("resident", peer_lanes)}))
    desk.arrive("first", tokens=40)
    desk.prepare("first", 40)
    desk.now += 0.039
    desk.core.models["a"].ran(0.01)
    return desk


def test_where_many_lanes_share_a_model_each_takes_its_share_of_what_waits() -> None:
    desk = with_a_batch(peer_lanes=7)
    out = desk.do(ev.PeerPulled("a", "work", pending=16, due=desk.now))
    assert batch_pulls(out) == [("a", 2)]


def test_lanes_that_share_several_models_are_divided_among_them() -> None:
    """Half of the eight have the other queue to take from: each of the rest takes a quarter of this one."""
    desk = with_a_batch(peer_lanes=7)
    sources = desk.core._pulls.sources
    sources.hot["b"] = sources.get("b")
    sources.get("b").came_at = desk.now
    out = desk.do(ev.PeerPulled("a", "work", pending=8, due=desk.now))
    assert batch_pulls(out) == [("a", 2)]


def test_where_no_batch_of_it_ran_here_all_that_fits_is_taken() -> None:
    desk = with_a_batch(peer_lanes=7)
    model = desk.core.models["a"]
    model.ran_s = 0.0
    out = desk.do(ev.PeerPulled("a", "work", pending=16, due=desk.now))
    assert batch_pulls(out) == [("a", int(BUDGET.seconds / model.unit_s + 1e-6))]


def test_where_no_other_lane_has_the_model_all_that_fits_is_taken() -> None:
    desk = with_a_batch(peer_lanes=0)
    model = desk.core.models["a"]
    out = desk.do(ev.PeerPulled("a", "work", pending=16, due=desk.now))
    assert batch_pulls(out) == [("a", int(BUDGET.seconds / model.unit_s + 1e-6))]


def test_a_share_grows_with_the_batches_that_ran() -> None:
    desk = with_a_batch(peer_lanes=7)
    model = desk.core.models["a"]
    for _ in range(60):
        model.ran(0.06)
    out = desk.do(ev.Ticked())
    assert batch_pulls(out) == [("a", int(GROWTH * model.ran_s / model.unit_s + 1e-6))]
