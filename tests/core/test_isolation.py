"""Runtimes that die: who is suspected, who waits for whom, when the process starts again."""

from shoal.core import events as ev
from shoal.core.batcher import Budget
from shoal.core.config import WorkerConfig
from shoal.core.hanging import LEAST_LIMIT_S
from shoal.core.isolation import MAX_DEAD_ITEMS, MAX_STRIKES
from shoal.core.lanes import HANG_S
from shoal.core.models import ModelSpec
from shoal.core.worker import WorkerCore
from shoal.values import Features

#: One token, one millisecond; a batch may have 100 tokens.
BUDGET = Budget(seconds=0.1, tokens=8192, items=64)
#: How long a runtime takes from its death until its model is there again.
DOWN_S = 2.0


def spec(name: str) -> ModelSpec:
    return ModelSpec(name, "fake", 512, BUDGET, (0.0, 1e-3, 0.0, 0.0))


class World:
    """A worker with one lane on which `m` is resident."""

    def __init__(self) -> None:
        config = WorkerConfig(lanes=["cpu"], models=[spec("m"), spec("n")], pinned=["m"])
        self.core = WorkerCore(config)
        self.now = 0.0
        self.core.handle(ev.Ticked(), self.now)
        self.restart()

    def handle(self, event: ev.Event) -> list[ev.Instruction]:
        """What follows; every claim is granted."""
        out = self.core.handle(event, self.now)
        claims = [i for i in out if isinstance(i, ev.Claim)]
        return out + [i for c in claims for i in self.core.handle(ev.Claimed(c.model), self.now)]

    def restart(self, *models: str) -> list[ev.Run]:
        """The runtime comes up and loads `m` and these; the batches that start then."""
        self.now += DOWN_S
        self.handle(ev.RuntimeStarted("cpu", "fake"))
        return [run for m in models or ("m",) for run in runs(self.handle(loaded(m)))]

    def arrive(self, unit: str, *lengths: int) -> list[ev.Run]:
        head = ev.UnitHead(unit, unit, "m", Features(sum(lengths), len(lengths)), 600.0)
        self.handle(ev.Arrived(head, 1, 0))
        return runs(self.handle(ev.Prepared([(unit, list(lengths))])))

    def finish(self, run: ev.Run) -> list[ev.Run]:
        self.now += run.predicted_s
        return runs(self.handle(ev.Finished("cpu", run.batch, run.predicted_s)))

    def die(self) -> list[ev.Instruction]:
        return self.handle(ev.RuntimeDied("cpu", "fake", "exit status -9"))


def loaded(model: str) -> ev.Loaded:
    return ev.Loaded("cpu", model, 1, 0.1)


def runs(instructions: list[ev.Instruction]) -> list[ev.Run]:
    return [i for i in instructions if isinstance(i, ev.Run)]


def units(run: ev.Run) -> set[str]:
    return {item.unit for item in run.items}


def test_a_runtime_that_died_computing_starts_again_at_once_however_often() -> None:
    world = World()
    for number in range(10):
        world.arrive(f"poison{number}", 10)
        assert world.die()[-1] == ev.StartRuntime("cpu", "fake")
        world.restart()


def test_a_runtime_that_dies_idle_waits_longer_each_time() -> None:
    world = World()
    delays = []
    for _ in range(4):
        world.die()
        delays.append((world.core.next_wake(world.now) or world.now) - world.now)
        world.now += delays[-1]
        world.handle(ev.Ticked())
        world.restart()
    assert delays == [0.0, 0.5, 1.0, 2.0]


def test_work_of_others_goes_before_suspects_for_as_long_as_the_runtime_was_down() -> None:
    world = World()
    world.arrive("poison", 10)
    world.die()
    for number in range(100):
        world.arrive(f"good{number}", 100)
    (run,) = world.restart()
    began = world.now
    while "poison" not in units(run):
        (run,) = world.finish(run)
    assert DOWN_S <= world.now - began <= DOWN_S + 0.2


def test_suspects_do_not_wait_for_nobody() -> None:
    world = World()
    world.arrive("poison", 10)
    world.die()
    (run,) = world.restart()
    assert units(run) == {"poison"}


def test_all_of_a_suspect_runs_alone_also_what_was_not_in_the_batch() -> None:
    world = World()
    world.arrive("poison", 60, 60, 60)
    world.arrive("good", 10)
    world.die()
    (run,) = world.restart()
    seen = []
    while True:
        seen.append(units(run))
        left = world.finish(run)
        if not left:
            break
        (run,) = left
    assert seen == [{"good"}, {"poison"}, {"poison"}, {"poison"}]


def test_a_batch_is_not_blamed_while_a_model_was_loading() -> None:
    world = World()
    world.handle(ev.DemandSeen("g", {"n": 1.0}))
    world.arrive("u", 10)
    world.die()
    held = world.core.units.get("u")
    assert held is not None
    assert held.strikes == 0


def test_the_item_at_fault_is_dead_lettered_and_its_neighbours_are_answered() -> None:
    world = World()
    (run,) = world.arrive("u", 10, 11, 12)
    deaths, answers = 0, []
    while True:
        if any(item.index == 1 for item in run.items):
            out = world.die()
            deaths += 1
            answers += [i for i in out if isinstance(i, ev.FailItem | ev.Reply)]
            again = world.restart()
        else:
            world.now += run.predicted_s
            out = world.handle(ev.Finished("cpu", run.batch, run.predicted_s))
            answers += [i for i in out if isinstance(i, ev.FailItem | ev.Reply)]
            again = runs(out)
        if not again:
            break
        (run,) = again
    assert deaths == 3
    failed, reply = answers
    assert isinstance(failed, ev.FailItem)
    assert (failed.index, failed.error.code) == (1, "dead_lettered")
    assert reply == ev.Reply("u")


def test_a_unit_of_many_bad_items_is_given_up_as_a_whole() -> None:
    world = World()
    again = world.arrive("u", *[10] * 10)
    deaths = 0
    while again:
        out = world.die()
        deaths += 1
        again = world.restart()
    assert [type(i) for i in out] == [ev.SetAside, ev.Fail, ev.StartRuntime]
    assert deaths == MAX_STRIKES + MAX_DEAD_ITEMS


def test_a_load_that_may_have_killed_its_runtime_is_tried_with_nothing_else_running() -> None:
    world = World()
    world.handle(ev.DemandSeen("g", {"n": 1.0}))
    world.arrive("u", 10)
    world.die()
    world.now += DOWN_S
    assert world.handle(ev.RuntimeStarted("cpu", "fake")) == [ev.Load("cpu", "m")]
    out = world.handle(loaded("m"))
    assert ev.Load("cpu", "n") in out
    assert runs(out) == []
    (run,) = runs(world.handle(loaded("n")))
    assert units(run) == {"u"}


def killed(instructions: list[ev.Instruction]) -> list[ev.KillRuntime]:
    return [i for i in instructions if isinstance(i, ev.KillRuntime)]


def hang(world: World, seconds: float, share: float = 0.0) -> list[ev.KillRuntime]:
    """Let time pass as the shell does, waking when the core says so, up to the first kill, if there is one;
    the process uses this share of a core."""
    end = world.now + seconds
    out: list[ev.KillRuntime] = []
    while world.now < end and not out:
        wake = world.core.next_wake(world.now)
        assert wake is not None
        world.now = max(world.now + 1e-3, min(wake, end))
        told = world.handle(ev.Ticked())
        out += killed(told)
        for ask in told:
            if isinstance(ask, ev.AskProcessor):
                world.handle(ev.ProcessorSeen(ask.lane, ask.kind, share * world.now))
    return out


def test_a_runtime_that_hangs_is_killed_and_its_batch_struck() -> None:
    world = World()
    world.arrive("u", 10)
    assert hang(world, HANG_S - 1.0) == []
    assert hang(world, 3.0) == [ev.KillRuntime("cpu", "fake")]
    world.die()
    held = world.core.units.get("u")
    assert held is not None
    assert held.strikes == 1


def test_one_that_computes_is_given_ten_times_as_long_and_no_more() -> None:
    world = World()
    world.arrive("u", 10)
    began = world.now
    assert hang(world, 20 * HANG_S, share=0.05) == [ev.KillRuntime("cpu", "fake")]
    assert 5 * HANG_S < world.now - began < 10 * HANG_S


def test_one_that_computes_no_more_is_killed_soon_after() -> None:
    world = World()
    world.arrive("u", 10)
    began = world.now
    assert hang(world, 2 * HANG_S, share=0.05) == []
    assert hang(world, 20 * HANG_S) == [ev.KillRuntime("cpu", "fake")]
    assert world.now - began < 3 * HANG_S + 20.0


def test_a_batch_that_comes_back_late_was_worth_waiting_for() -> None:
    world = World()
    (run,) = world.arrive("u", 10)
    assert hang(world, 5 * HANG_S, share=0.05) == []
    assert ev.Reply("u") in world.handle(ev.Finished("cpu", run.batch, 5 * HANG_S))


def test_a_runtime_that_hangs_is_noticed_when_nobody_waits_any_more() -> None:
    world = World()
    world.arrive("u", 10)
    world.handle(ev.Cancelled(["u"]))
    assert hang(world, HANG_S + 2.0) == [ev.KillRuntime("cpu", "fake")]


def test_a_worker_that_was_stopped_does_not_take_its_runtime_for_hung() -> None:
    world = World()
    (run,) = world.arrive("u", 10)
    world.now += 5 * HANG_S
    assert killed(world.handle(ev.Ticked())) == []
    assert ev.Reply("u") in world.handle(ev.Finished("cpu", run.batch, 0.01))


def test_a_batch_behind_a_load_does_not_hang() -> None:
    world = World()
    world.arrive("u", 10)
    world.handle(ev.DemandSeen("g", {"n": 1.0}))
    assert hang(world, LEAST_LIMIT_S - 10.0) == []  # after that the load itself hangs
