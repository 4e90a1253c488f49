"""Runs at one load, a share of capacity: what latencies are there, and what simulating it costs."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import msgspec

from shoal.sim.knee import WARM_GOALS
from shoal.sim.meter import Outcome
from shoal.sim.run import run
from shoal.sim.stage import Span
from shoal.sim.table import Cell

HEAD = (
    "workload",
    "device",
    "workers",
    "rule",
    "requests/s",
    "answered, warming up too",
    "late",
    "p50 ms",
    "p99 ms",
    "tokens a batch",
    "utilisation",
    "simulated in s",
)


class AtLoad(msgspec.Struct, frozen=True):
    """A cell at a share `load` of its scenario's capacity; one outcome of each seed."""

    cell: Cell
    load: float
    outcomes: list[Outcome]


def compute_at(cell: Cell, load: float, requests: int) -> AtLoad:
    """Measure so many requests a seed, after those that warm it up; in a process of its own."""
    world = cell.scenario
    rule = cell.tuned()
    rate = load * world.capacity
    span = Span(WARM_GOALS * world.goal_s, requests / rate)
    outcomes = [run(world, rule, rate, span, seed) for seed in range(1, cell.seeds + 1)]
    return AtLoad(cell, load, outcomes)


def cells_of(at: AtLoad) -> list[object]:
    """One line of the table: medians over seeds."""
    outcomes = at.outcomes
    cell = at.cell
    return [
        cell.workload,
        cell.device,
        cell.workers,
        cell.rule,
        f"{_median([o.offered for o in outcomes]):,.0f}",
        f"{_median([o.answered for o in outcomes]):,.0f}",
        f"{_median([o.late for o in outcomes]):.4f}",
        f"{_median([o.p50_s for o in outcomes]) * 1000:.0f}",
        f"{_median([o.p99_s for o in outcomes]) * 1000:.0f}",
        f"{_median([o.batch_tokens for o in outcomes]):,.0f}",
        f"{_median([o.utilisation for o in outcomes]):.2f}",
        f"{_median([o.cpu_s for o in outcomes]):.0f}",
    ]


def _median(figures: Sequence[float]) -> float:
    return float(median(figures))
