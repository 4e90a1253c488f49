"""Seeded worlds around the real core: whatever happens, no unit is lost, none is answered twice.

A small broker, runtimes that crash and fail, gateways that go away, on a virtual clock. After every
step the invariants are checked; at the end every unit is accounted for.
"""

import heapq
import random
from collections import Counter

import pytest

from shoal.core import events as ev
from shoal.core.batcher import Budget
from shoal.core.config import WorkerConfig
from shoal.core.models import ModelSpec
from shoal.core.worker import WorkerCore
from shoal.errors import ErrorInfo
from shoal.values import Features

BUDGET = Budget(seconds=0.05, tokens=400, items=16)
MODELS = ["m", "n"]
MOST_HELD = 600


class World:
    """One worker, its broker and its runtimes; every source of chance comes from the seed."""

    def __init__(self, seed: int, units: int) -> None:
        self.rng = random.Random(seed)
        specs = [ModelSpec(name, "fake", 512, BUDGET, (1e-3, 1e-4, 0.0, 1e-5)) for name in MODELS]
        self.core = WorkerCore(WorkerConfig(["a", "b"], specs, pinned=MODELS))
        self.now = 0.0
        self.timeline: list[tuple[float, int, ev.Event | str, object]] = []
        self.count = 0
        self.queue: dict[str, list[str]] = {name: [] for name in MODELS}
        self.heads: dict[str, ev.UnitHead] = {}
        self.standing: dict[int, str] = {}
        self.batches: dict[int, ev.Run] = {}
        self.fate: dict[str, str] = {}
        self.answers: Counter[str] = Counter()
        self.item_errors: Counter[str] = Counter()
        self.computed: Counter[ev.Item] = Counter()
        self.poison: set[str] = set()
        self.lives: Counter[str] = Counter()  # of the runtime on each lane
        at = 0.0
        for number in range(units):
            at += self.rng.expovariate(300)
            self.later(at, "publish", f"u{number}")
        self.later(0.0, ev.Ticked())

    def later(self, at: float, what: ev.Event | str, argument: object = None) -> None:
        self.count += 1
        heapq.heappush(self.timeline, (at, self.count, what, argument))

    # --- the outside ------------------------------------------------------------------------------

    def publish(self, unit: str) -> None:
        model = self.rng.choice(MODELS)
        request = (
            f"r{self.rng.randrange(10**6)}" if self.rng.random() < 0.5 else f"big{self.now:.0f}"
        )
        items = self.rng.choice([1, 1, 1, 4, 16])
        tokens = items * self.rng.choice([4, 12, 60])
        deadline = self.now + (0.02 if self.rng.random() < 0.05 else 60.0)
        self.heads[unit] = ev.UnitHead(unit, request, model, Features(tokens, items), deadline)
        if self.rng.random() < 0.01:
            self.poison.add(unit)
        if self.rng.random() < 0.03 and request.startswith("r"):
            self.later(self.now + 0.01, ev.Cancelled([request]))
        self.queue[model].append(unit)
        for pull, name in list(self.standing.items()):
            if name == model and self.queue[model]:
                del self.standing[pull]
                self.deliver(pull, model)
                self.later(self.now, ev.PullEnded(pull))

    def deliver(self, pull: int, model: str) -> None:
        unit = self.queue[model].pop(0)
        self.later(self.now + 3e-4, ev.Arrived(self.heads[unit], pull, len(self.queue[model])))

    def run(self, units: int) -> None:
        """Until every unit has ended, or clearly never will."""
        while len(self.fate) < units and self.now < 300:
            self.step()

    def step(self) -> None:
        wake = self.core.next_wake(self.now)
        if wake is not None and (not self.timeline or wake < self.timeline[0][0]):
            self.later(max(wake, self.now), ev.Ticked())
        at, _, what, argument = heapq.heappop(self.timeline)
        self.now = max(self.now, at)
        if what == "publish":
            self.publish(str(argument))
            return
        assert not isinstance(what, str)
        if isinstance(what, ev.Finished) and what.batch not in self.batches:
            return  # its runtime died
        if isinstance(what, ev.Loaded) and argument != self.lives[what.lane]:
            return  # likewise
        if isinstance(what, ev.Finished):
            what = self.end_batch(what)
        for instruction in self.core.handle(what, self.now):
            self.perform(instruction)
        self.check()

    def end_batch(self, finished: ev.Finished) -> ev.Event:
        """A batch ends well, comes back undone, or takes its runtime down."""
        run = self.batches.pop(finished.batch)
        if any(item.unit in self.poison for item in run.items):
            for batch, other in list(self.batches.items()):
                if other.lane == run.lane:
                    del self.batches[batch]
            self.lives[run.lane] += 1
            return ev.RuntimeDied(run.lane, "fake", "exit status -11")
        if self.rng.random() < 0.03:
            code = self.rng.choice(["out_of_memory", "internal"])
            return ev.BatchFailed(run.lane, run.batch, ErrorInfo(code, "by chance"))
        self.computed.update(run.items)
        return finished

    # --- what the core says -----------------------------------------------------------------------

    def perform(self, do: ev.Instruction) -> None:
        match do:
            case ev.Pull(pull, model, count, standing):
                if standing and not self.queue[model]:
                    self.standing[pull] = model
                    return
                for _ in range(min(count, len(self.queue[model]))):
                    self.deliver(pull, model)
                self.later(self.now + 4e-4, ev.PullEnded(pull, found_all=not standing))
            case ev.Withdraw(pull):
                self.standing.pop(pull, None)
                self.later(self.now + 2e-4, ev.PullEnded(pull))
            case ev.Prepare(unit):
                share = self.heads[unit].estimate.tokens // self.heads[unit].estimate.items
                lengths = [
                    0 if self.rng.random() < 0.02 else share
                    for _ in range(self.heads[unit].estimate.items)
                ]
                self.later(self.now + 1e-3, ev.Prepared([(unit, lengths)]))
            case ev.Run(lane, batch):
                assert all(item.unit not in self.fate for item in do.items), (
                    "ran a unit that had ended"
                )
                assert len(do.items) <= BUDGET.items
                self.batches[batch] = do
                seconds = do.predicted_s * self.rng.uniform(0.5, 2.0)
                self.later(self.now + seconds, ev.Finished(lane, batch, seconds))
            case ev.StartRuntime(lane, kind):
                self.later(self.now + 0.1, ev.RuntimeStarted(lane, kind))
            case ev.Load(lane, model):
                loaded = ev.Loaded(lane, model, 1, 0.05)
                self.later(self.now + 0.05, loaded, self.lives[lane])
            case ev.FailItem(unit):
                self.item_errors[unit] += 1
            case ev.Reply(unit) | ev.Fail(unit):
                self.answers[unit] += 1
                heard = self.rng.random()
                if heard < 0.9:
                    self.later(self.now + 5e-4, ev.Settled(unit))
                elif heard < 0.95:
                    self.later(self.now + 5e-4, ev.Unheard(unit))
            case ev.Forget(unit):
                self.end(unit, "settled")
            case ev.Terminate(unit, reason):
                self.end(unit, reason)
            case ev.Return(unit):
                self.end(unit, "returned")

    def end(self, unit: str, fate: str) -> None:
        assert unit not in self.fate, f"{unit} ended twice"
        self.fate[unit] = fate

    def check(self) -> None:
        assert len(self.core.units) <= MOST_HELD
        for lane in self.core.lanes.values():
            assert len(lane.batches) <= 2
        for model in self.core.models.values():
            assert model.waiting_s >= 0


@pytest.mark.parametrize("seed", range(12))
def test_no_unit_is_lost_or_ends_twice(seed: int) -> None:
    world = World(seed, units=400)
    world.run(400)
    assert len(world.fate) == 400
    fates = Counter(world.fate.values())
    assert fates["settled"] > 350
    for unit, fate in world.fate.items():
        if fate == "settled":
            assert world.answers[unit] >= 1
    for unit in world.poison:
        assert world.fate[unit] in ("settled", "cancelled", "deadline", "unheard")
    assert len(world.core.units) == 0
    for model in world.core.models.values():
        assert not model.shelf
        assert (model.waiting_s, model.preparing) == (0, 0)


def test_the_same_seed_gives_the_same_world() -> None:
    def history(seed: int) -> list[tuple[str, str]]:
        world = World(seed, units=100)
        world.run(100)
        return list(world.fate.items())

    assert history(3) == history(3)
