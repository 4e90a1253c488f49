"""How long the worker's core takes: mean microseconds a unit, by number of models.

One worker whose units and batches are all imaginary: only the decisions are timed. As the worker's
loop does, the core reacts to each event and decides once for those that come at one time.
"""

from __future__ import annotations

import heapq
import itertools
import random
import time
from typing import Annotated

import msgspec

from shoal.bench import report
from shoal.bench.benchmark import Tell, option
from shoal.core import events as ev
from shoal.core.batcher import Budget
from shoal.core.config import WorkerConfig
from shoal.core.models import ModelSpec
from shoal.core.worker import WorkerCore
from shoal.values import features_of

#: A batch of a device that takes 3 ms and 2 µs a token: what GPUs do with small encoders.
COST = (3e-3, 2e-6, 0.0, 1e-6)
BUDGET = Budget(seconds=0.02, tokens=16_384, items=128)
ROUND_TRIP_S = 5e-4
PREPARE_S = 1e-3
TOKENS = 60
SEED = 1


class Plan(msgspec.Struct, frozen=True):
    """What to time; every combination is a row."""

    lanes: Annotated[tuple[int, ...], option("Devices of the worker")] = (1, 8)
    per_s: Annotated[tuple[float, ...], option("Units a second for each lane")] = (100.0, 1500.0)
    models: Annotated[tuple[int, ...], option("Models")] = (1, 20, 200)
    items: Annotated[int, option("Items of a unit")] = 1
    units: Annotated[int, option("Units of each row")] = 4000


class Row(msgspec.Struct, frozen=True):
    """What one run took. `events` and `instructions` of a unit, on average."""

    models: int
    lanes: int
    per_s: float
    events: float
    instructions: float
    event_us: float
    unit_us: float
    items_a_batch: float


#: What comes in one turn of the worker's loop, and when.
Turn = tuple[list[ev.Event], float]


def core_of(names: list[str], lanes: int) -> WorkerCore:
    """A worker to which these models are pinned."""
    specs = [ModelSpec(name, "fake", 512, BUDGET, COST) for name in names]
    return WorkerCore(WorkerConfig([f"lane{i}" for i in range(lanes)], specs, pinned=names))


class World:
    """A broker and devices that do nothing but take their time."""

    def __init__(self, models: int, lanes: int, items: int) -> None:
        self._rng = random.Random(SEED)
        self._lengths = [TOKENS] * items
        names = [f"m{number}" for number in range(models)]
        self._weights = [1.0 / (rank + 1) for rank in range(models)]
        self.names = names
        self.core = core_of(names, lanes)
        self._queues: dict[str, list[str]] = {name: [] for name in names}
        self._heads: dict[str, ev.UnitHead] = {}
        self._standing: dict[str, list[int]] = {name: [] for name in names}
        self._timeline: list[tuple[float, int, ev.Event]] = []
        self._count = 0
        self.now = 0.0
        self.history: list[Turn] = []
        self.instructions = 0
        self.batches, self.items, self.settled = 0, 0, 0
        self.feed([ev.Ticked()])
        while self._timeline and self._timeline[0][0] <= 0.0:
            self.step()

    def later(self, delay_s: float, event: ev.Event) -> None:
        self._count += 1
        heapq.heappush(self._timeline, (self.now + delay_s, self._count, event))

    def publish(self, number: int) -> None:
        """A unit of a model, the popular ones more often."""
        (name,) = self._rng.choices(self.names, self._weights)
        unit = f"u{number}"
        features = features_of(self._lengths)
        self._heads[unit] = ev.UnitHead(
            unit, f"r{number}", name, features, self.now + 60.0, published=self.now
        )
        self._queues[name].append(unit)
        if self._standing[name]:
            self._deliver(self._standing[name].pop(0), name, 1)

    def _deliver(self, pull: int, name: str, count: int) -> int:
        queue = self._queues[name]
        units = [queue.pop(0) for _ in range(min(count, len(queue)))]
        for behind, unit in enumerate(units, start=1):
            left = len(queue) + len(units) - behind
            self.later(ROUND_TRIP_S, ev.Arrived(self._heads.pop(unit), pull, left))
        return len(units)

    def step(self) -> None:
        """The next events, or the core's own wish to be woken."""
        at = self._timeline[0][0]
        wake = self.core.next_wake(self.now)
        if wake is not None and wake < at:
            self.now = max(self.now, wake)
            self.feed([ev.Ticked()])
            return
        self.now = max(self.now, at)
        events = []
        while self._timeline and self._timeline[0][0] == at:
            events.append(heapq.heappop(self._timeline)[2])
        self.feed(events)

    def run_until(self, at: float) -> None:
        while self._timeline and self._timeline[0][0] <= at:
            self.step()
        self.now = max(self.now, at)

    def feed(self, events: list[ev.Event]) -> None:
        self.history.append((events, self.now))
        out = [i for event in events for i in self.core.react(event, self.now)]
        out += self.core.decide(self.now)
        self.instructions += len(out)
        for instruction in out:
            self._perform(instruction)

    def _perform(self, do: ev.Instruction) -> None:
        match do:
            case ev.Pull(pull, model, count, standing):
                got = self._deliver(pull, model, count)
                if standing and not got:
                    self._standing[model].append(pull)
                elif not standing:
                    self.later(ROUND_TRIP_S, ev.PullEnded(pull, found_all=got < count))
            case ev.Withdraw(pull):
                for waiting in self._standing.values():
                    if pull in waiting:
                        waiting.remove(pull)
                self.later(ROUND_TRIP_S, ev.PullEnded(pull))
            case ev.Prepare(unit):
                self.later(PREPARE_S, ev.Prepared([(unit, self._lengths)]))
            case ev.Run(lane, batch):
                self.batches += 1
                self.items += len(do.items)
                self.later(do.predicted_s, ev.Finished(lane, batch, do.predicted_s))
            case ev.Reply(unit):
                self.later(ROUND_TRIP_S, ev.Settled(unit))
            case ev.Forget() | ev.Return():
                self.settled += 1
            case ev.StartRuntime(lane, kind):
                self.later(0.0, ev.RuntimeStarted(lane, kind))
            case ev.Load(lane, model):
                self.later(0.0, ev.Loaded(lane, model, 1, 0.01))


def row(models: int, lanes: int, per_s: float, plan: Plan) -> Row:
    """Let the plan's units come at random, `per_s` a second on average."""
    world = World(models, lanes, plan.items)
    began = len(world.history)
    world.instructions = 0
    rng = random.Random(SEED)
    at = world.now
    for number in range(plan.units):
        at += rng.expovariate(per_s)
        world.run_until(at)
        world.publish(number)
    world.run_until(at + 1.0)
    events = sum(len(events) for events, _ in world.history[began:])
    spent_s = replay_s(core_of(world.names, lanes), world.history, began)
    return Row(
        models,
        lanes,
        per_s,
        events / plan.units,
        world.instructions / plan.units,
        spent_s / events * 1e6,
        spent_s / plan.units * 1e6,
        world.items / max(1, world.batches),
    )


def replay_s(core: WorkerCore, history: list[Turn], began: int) -> float:
    """CPU seconds of a core for what happened from `began` on, as the shell would call it.

    The core is told again what happened, so that the clock is read twice and not for every event.
    """
    _play(core, history[:began])
    since = time.process_time()
    _play(core, history[began:])
    return time.process_time() - since


def _play(core: WorkerCore, history: list[Turn]) -> None:
    for events, now in history:
        for event in events:
            core.react(event, now)
        core.decide(now)
        core.next_wake(now)


class Result(report.Result, frozen=True):
    plan: Plan
    rows: list[Row]


def measure(plan: Plan, tell: Tell) -> Result:
    """Every row in turn."""
    rows: list[Row] = []
    for lanes, per_s, models in itertools.product(plan.lanes, plan.per_s, plan.models):
        tell(f"{models} models, {lanes} lanes, {per_s * lanes:g} units a second")
        rows.append(row(models, lanes, per_s * lanes, plan))
    return Result(report.this_machine([]), plan, rows)


def table(result: Result) -> str:
    """One row for each number of lanes, load, and number of models."""
    head = ["models", "lanes", "units/s", "events a unit", "instructions a unit"]
    head += ["µs an event", "µs a unit", "items a batch"]
    return report.table(head, [msgspec.structs.astuple(one) for one in result.rows])
