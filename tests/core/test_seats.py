"""Models that generate: a place for each sequence, no more pulled than there are, and who gets one."""

import msgspec
import pytest

from shoal.core import events as ev
from shoal.core.batcher import Budget
from shoal.core.config import WorkerConfig
from shoal.core.lanes import HANG_FACTOR, HANG_S
from shoal.core.models import ModelSpec
from shoal.core.worker import WorkerCore
from shoal.errors import ErrorInfo
from shoal.values import Features, TrafficClass

PLACES = 4
CHAT = ModelSpec(
    "chat",
    "fake",
    512,
    Budget(0.1, 8192, 64),
    (0.0, 1e-4, 0.0, 0.0, 1e-2),
    work="generate",
    sequences=PLACES,
)
EMBED = ModelSpec("embed", "fake", 512, Budget(0.1, 8192, 64), (0.0, 1e-3, 0.0, 0.0))


class World:
    """A worker with one lane, on which one model generates and another runs batches."""

    def __init__(self, chat: ModelSpec = CHAT) -> None:
        config = WorkerConfig(["cpu"], [chat, EMBED], pinned=["chat", "embed"])
        self.core = WorkerCore(config)
        self.now = 0.0
        self.open: dict[int, ev.Pull] = {}
        self.handle(ev.Ticked())
        self.handle(ev.RuntimeStarted("cpu", "fake"))
        self.load()

    def load(self) -> None:
        for model in ("chat", "embed"):
            self.handle(ev.Loaded("cpu", model, 1, 0.1))

    def handle(self, event: ev.Event) -> list[ev.Instruction]:
        out = self.core.handle(event, self.now)
        for do in out:
            if isinstance(do, ev.Pull):
                self.open[do.pull] = do
            elif isinstance(do, ev.Withdraw):
                del self.open[do.pull]
        return out

    def pulls(self, model: str = "chat", klass: TrafficClass = "work") -> list[ev.Pull]:
        return [p for p in self.open.values() if (p.model, p.klass) == (model, klass)]

    def arrive(
        self,
        unit: str,
        pending: int = 0,
        klass: TrafficClass = "work",
        most_new: int = 0,
        *,
        generates: bool = True,
    ) -> list[ev.Run]:
        """A unit of one item over the pull that is open."""
        (pull,) = self.pulls(klass=klass)
        estimate = Features(10, new_tokens=most_new)
        until = self.now + 600.0
        head = ev.UnitHead(unit, unit, "chat", estimate, until, klass, generates=generates)
        out = self.handle(ev.Arrived(head, pull.pull, pending))
        if pull.standing or pull.count == 1:
            del self.open[pull.pull]
        else:
            self.open[pull.pull] = ev.Pull(pull.pull, "chat", pull.count - 1, False, klass)
        if not pull.standing and pull.pull not in self.open:
            out += self.handle(ev.PullEnded(pull.pull))
        return runs(out + self.handle(ev.Prepared([(unit, [10])])))

    def end(self, run: ev.Run, new_tokens: int = 20) -> list[ev.Instruction]:
        return self.handle(ev.Finished("cpu", run.batch, 0.2, new_tokens=new_tokens))


def runs(out: list[ev.Instruction]) -> list[ev.Run]:
    return [do for do in out if isinstance(do, ev.Run)]


def test_a_sequence_begins_beside_those_under_way() -> None:
    world = World()
    begun = [world.arrive(f"u{n}") for n in range(PLACES)]
    assert [[item.unit for item in run.items] for own in begun for run in own] == [
        ["u0"],
        ["u1"],
        ["u2"],
        ["u3"],
    ]


def test_nothing_is_pulled_for_which_there_is_no_place() -> None:
    world = World()
    all_runs = [run for n in range(PLACES) for run in world.arrive(f"u{n}")]
    assert not world.pulls()
    world.end(all_runs[1])
    (pull,) = world.pulls()
    assert pull.standing


def test_where_more_wait_as_many_are_pulled_as_there_are_places() -> None:
    world = World()
    world.arrive("u0", pending=50)
    (pull,) = world.pulls()
    assert (pull.standing, pull.count) == (False, PLACES - 1)


def test_batches_run_beside_sequences() -> None:
    world = World()
    world.arrive("u0")
    (pull,) = world.pulls("embed")
    head = ev.UnitHead("e", "e", "embed", Features(10), 600.0)
    world.handle(ev.Arrived(head, pull.pull, 0))
    (run,) = runs(world.handle(ev.Prepared([("e", [10])])))
    assert run.model == "embed"


def test_a_run_says_whether_the_runtime_generates_it() -> None:
    world = World()
    (text,) = world.arrive("text")
    (vectors,) = world.arrive("vectors", generates=False)
    assert (text.generates, vectors.generates) == (True, False)
    assert set(world.core.lanes["cpu"].seats) == {text.batch, vectors.batch}, "each has a place"


def test_bulk_takes_a_part_of_the_places() -> None:
    world = World()
    world.handle(ev.DemandSeen("g", {}, {"chat": 100.0}))
    for n in range(PLACES // 2):
        assert world.arrive(f"b{n}", klass="bulk")
    assert not world.pulls(klass="bulk")
    assert world.pulls()


def test_what_nobody_waits_for_is_ended_and_its_place_is_free_then() -> None:
    world = World()
    all_runs = [run for n in range(PLACES) for run in world.arrive(f"u{n}")]
    out = world.handle(ev.Cancelled(["u2"]))
    assert ev.End("cpu", all_runs[2].batch) in out
    assert not [do for do in world.handle(ev.Ticked()) if isinstance(do, ev.End)]
    assert not world.pulls()
    world.end(all_runs[2])
    assert world.pulls()


def test_a_passed_deadline_ends_a_sequence() -> None:
    world = World()
    (run,) = world.arrive("u0")
    world.now = 601.0
    out = world.handle(ev.Ticked())
    assert ev.Terminate("u0", "deadline") in out
    assert ev.End("cpu", run.batch) in out


def test_a_runtime_that_tells_nothing_of_its_sequences_is_killed() -> None:
    world = World()
    world.arrive("u0")
    kill = ev.KillRuntime("cpu", "fake")
    seen: list[ev.Instruction] = []
    while kill not in seen and world.now < 2 * HANG_S:
        world.now += 1.0
        seen += world.handle(ev.Ticked())
    assert HANG_S <= world.now < HANG_S + 3.0


def test_a_prompt_that_takes_long_to_read_is_no_runtime_that_hangs() -> None:
    world = World(msgspec.structs.replace(CHAT, cost_seed=(0.0, 1.0, 0.0, 0.0, 1e-2)))
    world.arrive("u0")  # ten tokens, of a second each
    kill = ev.KillRuntime("cpu", "fake")
    seen: list[ev.Instruction] = []
    while kill not in seen and world.now < 5 * HANG_S:
        world.now += 1.0
        seen += world.handle(ev.Ticked())
    assert 10.0 * HANG_FACTOR <= world.now < 11.0 * HANG_FACTOR


def test_one_that_computes_may_be_silent_for_longer() -> None:
    world = World()
    world.arrive("u0")
    out: list[ev.Instruction] = []
    while not (killed := [do for do in out if isinstance(do, ev.KillRuntime)]):
        world.now += 1.0
        out = world.handle(ev.Ticked())
        if ev.AskProcessor("cpu", "fake") in out:
            world.handle(ev.ProcessorSeen("cpu", "fake", 0.1 * world.now))
        assert world.now < 20 * HANG_S
    assert killed == [ev.KillRuntime("cpu", "fake")]
    assert 5 * HANG_S < world.now < 11 * HANG_S


def test_one_that_goes_on_is_left_alone() -> None:
    world = World()
    world.arrive("u0")
    out: list[ev.Instruction] = []
    while world.now < 3 * HANG_S:
        world.now += 1.0
        world.handle(ev.Progressed("cpu", "fake"))
        out += world.handle(ev.Ticked())
    assert not [do for do in out if isinstance(do, ev.KillRuntime)]


def test_after_a_death_each_that_ran_runs_alone() -> None:
    world = World()
    for n in range(2):
        world.arrive(f"u{n}")
    world.handle(ev.RuntimeDied("cpu", "fake", "exit status -9"))
    world.now += 2.0
    world.handle(ev.RuntimeStarted("cpu", "fake"))
    out = [run for m in ("chat", "embed") for run in runs(world.handle(ev.Loaded("cpu", m, 1, 1)))]
    out += runs(world.handle(ev.Ticked()))
    assert len(out) == 1
    (second,) = runs(world.end(out[0]))
    assert {out[0].items[0].unit, second.items[0].unit} == {"u0", "u1"}


def test_what_is_to_run_alone_does_so_though_another_model_is_always_asked_for() -> None:
    other = msgspec.structs.replace(CHAT, name="other")
    core = WorkerCore(WorkerConfig(["cpu"], [CHAT, other], pinned=["chat", "other"]))
    core.handle(ev.Ticked(), 0.0)
    core.handle(ev.RuntimeStarted("cpu", "fake"), 0.0)

    def load(now: float) -> list[ev.Run]:
        return [
            run
            for model in ("chat", "other")
            for run in runs(core.handle(ev.Loaded("cpu", model, 1, 0.1), now))
        ]

    def arrive(unit: str, model: str, now: float) -> list[ev.Run]:
        head = ev.UnitHead(unit, unit, model, Features(10), now + 600.0)
        out = core.handle(ev.Arrived(head, 999, 0), now)
        return runs(out + core.handle(ev.Prepared([(unit, [10])]), now))

    load(0.0)
    arrive("struck", "chat", 0.0)
    arrive("struck too", "chat", 0.0)
    core.handle(ev.RuntimeDied("cpu", "fake", "exit status -9"), 0.0)
    core.handle(ev.RuntimeStarted("cpu", "fake"), 2.0)
    begun = [(2.0, run) for run in load(2.0) + runs(core.handle(ev.Ticked(), 2.0))]
    ended = 0
    for n in range(100):  # each takes two seconds, and another comes each second
        now = 3.0 + n
        begun += [(now, run) for run in arrive(f"o{n}", "other", now)]
        if n == 50:
            begun += [(now, run) for run in arrive("late", "chat", now)]
        while ended < len(begun) and begun[ended][0] <= now - 2.0:
            event = ev.Finished("cpu", begun[ended][1].batch, 2.0, new_tokens=20)
            begun += [(now, run) for run in runs(core.handle(event, now))]
            ended += 1
    units = [item.unit for _, run in begun for item in run.items]
    assert units[0] == "struck"
    assert {"struck too", "late"} < set(units)
    assert len(units) > 90


def test_how_long_texts_become_is_learnt() -> None:
    world = World()
    before = world.core.models["chat"].cost.item_s(10)
    for n in range(100):
        (run,) = world.arrive(f"u{n}")
        world.handle(ev.Finished("cpu", run.batch, 0.02, new_tokens=2))
        world.handle(ev.Settled(f"u{n}"))
    assert world.core.models["chat"].cost.item_s(10) < before / 10


def test_texts_that_were_cut_do_not_make_longer_ones_seem_short() -> None:
    world = World()
    before = world.core.models["chat"].cost.item_s(10, 500)
    for n in range(100):
        (run,) = world.arrive(f"u{n}", most_new=2)
        assert run.predicted_s == pytest.approx(0.02, rel=0.3)
        world.handle(ev.Finished("cpu", run.batch, 0.02, new_tokens=2, cut=True))
        world.handle(ev.Settled(f"u{n}"))
    assert world.core.models["chat"].cost.item_s(10, 500) == pytest.approx(before, rel=0.3)


def test_what_waits_counts_as_no_more_than_it_may_become() -> None:
    world = World()
    chat = world.core.models["chat"]
    for n in range(PLACES):
        world.arrive(f"u{n}", most_new=400)
    assert chat.waiting_s == 0.0
    expected, short = (chat.cost.item_s(10, most) for most in (0, 5))
    for unit, most_new in (("long", 400), ("short", 5)):
        head = ev.UnitHead(unit, unit, "chat", Features(10, new_tokens=most_new), 600.0)
        world.handle(ev.Arrived(head, 999, 0))
        world.handle(ev.Prepared([(unit, [10])]))
    assert chat.waiting_s == pytest.approx(expected + short)
    assert short < expected / 10


def test_one_that_cannot_be_generated_fails_alone() -> None:
    world = World()
    (first,), (second,) = world.arrive("u0"), world.arrive("u1")
    failed = world.handle(ev.BatchFailed("cpu", first.batch, ErrorInfo("internal", "no")))
    assert [do.unit for do in failed if isinstance(do, ev.FailItem)] == ["u0"]
    assert ev.Reply("u1") in world.end(second)


@pytest.mark.parametrize(
    ("code", "status"),
    [("invalid_request", 400), ("too_many_tokens", 400), ("unavailable", 503)],
)
def test_what_a_runtime_has_against_a_sequence_its_caller_is_told(code: str, status: int) -> None:
    world = World()
    (run,) = world.arrive("u0")
    said = ErrorInfo(code, "the grammar is none", param="regex")
    (failed,) = [
        do
        for do in world.handle(ev.BatchFailed("cpu", run.batch, said))
        if isinstance(do, ev.FailItem)
    ]
    assert (failed.error.code, failed.error.status) == (code, status)
    assert (failed.error.message, failed.error.param) == ("the grammar is none", "regex")
