"""Cells of the comparison: one scenario, every rule, several seeds; computed by several processes.

Decides what is compared with what: all rules on the same requests, with the same workers; and a
latency at half of what round robin can carry, where every rule is at ease.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from statistics import median
from typing import TypeVar

import msgspec

from shoal.runtimes.process import die_with_parent
from shoal.sim.knee import Knee, at_load, knee_of
from shoal.sim.meter import Outcome
from shoal.sim.rules import PULL, RULES, Rule
from shoal.sim.run import run
from shoal.sim.scenario import DEVICES, Scenario
from shoal.sim.stage import Span
from shoal.sim.tuning import tuned
from shoal.sim.workloads import Name, by_count, scenario

#: Where memory is short no knee is searched: load is fixed at so many requests a second a worker. A
#: fifth of them want a model that no lane has room for, and a load takes 0.6 s.
MEMORY_RATE = 5.0
#: Caches need time to show what they are worth: filling them takes about 10 s.
MEMORY_SPAN = Span(60.0, 240.0)

T = TypeVar("T")
#: A function of this module and what to call it with.
Work = tuple[Callable[..., T], tuple[object, ...]]


class Cell(msgspec.Struct, frozen=True):
    """What to compute: one rule (or way to evict) in one scenario, over some seeds.

    `near`: a share of capacity to search the knee around. `setting`: spread and spill seconds of the
    affinity rules, found elsewhere; None: they are searched for.
    """

    workload: Name
    device: str
    workers: int
    rule: str
    seeds: int
    models: int | None = None
    near: float | None = None
    setting: tuple[float, float] | None = None

    @property
    def scenario(self) -> Scenario:
        return scenario(self.workload, DEVICES[self.device], self.workers, self.models)

    def tuned(self) -> Rule:
        """The rule with its settings for this scenario: those given, or the best that are found."""
        rule = RULES[self.rule]
        if not rule.tuned:
            return rule
        if self.setting is None:
            return tuned(self.scenario, rule, self.near)
        spread, spill_s = self.setting
        return msgspec.structs.replace(rule, spread=spread, spill_s=spill_s)


class Result(msgspec.Struct, frozen=True):
    """A cell's figures, one of each seed.

    `half`: outcomes at half of round robin's knee, if that is known. `setting`: of a tuned rule.
    """

    cell: Cell
    knees: list[Knee | None]
    half: list[Outcome] = []
    setting: Rule | None = None

    def tokens(self) -> list[float]:
        """Tokens a second at the knee; 0 where there is none."""
        return [knee.outcome.tokens if knee else 0.0 for knee in self.knees]

    def outcomes(self) -> list[Outcome]:
        """What was measured at the knees."""
        return [knee.outcome for knee in self.knees if knee is not None]


def compute(cell: Cell) -> Result:
    """Search the knee of each seed; runs in a process of its own."""
    world = cell.scenario
    rule = cell.tuned()
    knees: list[Knee | None] = []
    for seed in range(1, cell.seeds + 1):
        near = next((knee.load for knee in knees if knee is not None), cell.near)
        knees.append(knee_of(world, rule, seed, near))
    return Result(cell, knees, setting=rule if rule.tuned else None)


def compute_half(result: Result, load: float) -> Result:
    """Measure the same rule at a load that all carry."""
    cell = result.cell
    rule = result.setting or RULES[cell.rule]
    seeds = range(1, cell.seeds + 1)
    half = [at_load(cell.scenario, rule, load, seed) for seed in seeds]
    return msgspec.structs.replace(result, half=half)


def in_processes(work: Sequence[Work[T]], processes: int) -> Iterator[T]:
    """Results as they are done."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context, die_with_parent) as pool:
        for done in as_completed([pool.submit(call, *args) for call, args in work]):
            yield done.result()


def halves(results: list[Result]) -> list[Work[Result]]:
    """The work that is left once the knees are known."""
    load = {
        _place(result.cell): median(knee.load for knee in result.knees if knee) / 2
        for result in results
        if result.cell.rule == "round-robin" and any(result.knees)
    }
    return [
        (compute_half, (result, load[_place(result.cell)]))
        for result in results
        if _place(result.cell) in load
    ]


def _place(cell: Cell) -> tuple[str, str, int]:
    return cell.workload, cell.device, cell.workers


# --- where memory is short ------------------------------------------------------------------------

#: Ways to evict, all of the real core.
EVICTIONS = ("worth (GDSF)", "LRU by bytes", "LRU by count")


class Eviction(msgspec.Struct, frozen=True):
    """One way to evict in the world that has not enough memory, over some seeds."""

    way: str
    workers: int
    seeds: int
    models: int | None = None


class Evicted(msgspec.Struct, frozen=True):
    cell: Eviction
    outcomes: list[Outcome]


def compute_eviction(cell: Eviction) -> Evicted:
    """Play the same requests with one way to evict."""
    world = scenario("memory", DEVICES["gpu"], cell.workers, cell.models)
    match cell.way:
        case "LRU by bytes":
            cluster = msgspec.structs.replace(world.cluster, eviction="lru")
            world = msgspec.structs.replace(world, cluster=cluster)
        case "LRU by count":
            world = by_count(world)
        case _:
            pass
    rate = MEMORY_RATE * cell.workers
    return Evicted(
        cell, [run(world, PULL, rate, MEMORY_SPAN, seed) for seed in range(1, cell.seeds + 1)]
    )
