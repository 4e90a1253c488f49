"""`python -m shoal.bench cycles`: a real model loaded and unloaded again and again; memory stays flat.

The runtime process is asked for its own figures, and a batch runs in each cycle, so that whatever
a first use keeps is kept.
"""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec
import numpy as np

from shoal.bench import report
from shoal.bench.benchmark import Tell, option
from shoal.bench.runtime import alone
from shoal.catalog.fetch import fetch
from shoal.catalog.resolve import Catalog
from shoal.wire.arrays import to_wire
from shoal.wire.socket import AskStats, Done, Load, Loaded, Run, Stats, Unload, Unloaded
from shoal.worker.models import load_of

#: Cycles until what is kept once and for all (kernels, pools of threads) is there.
WARM = 5
#: Items of each cycle's batch: few and many row counts.
_LENGTHS = (4, 16, 32, 32, 64, 128)


class Cycle(msgspec.Struct, frozen=True):
    """Resident set before the load, with the model after a batch, and after the unload."""

    model: str
    said_bytes: int
    loaded_bytes: int
    unloaded_bytes: int
    load_s: float


class Plan(msgspec.Struct, frozen=True):
    """What to load, and how often; growth is told from the first and the last five."""

    model: Annotated[str, option("A model of the catalog")] = "all-MiniLM-L6-v2"
    count: Annotated[int, msgspec.Meta(description="Loads and unloads", ge=12)] = 50


class Result(report.Result, frozen=True):
    model: str
    empty_bytes: int
    cycles: list[Cycle]

    @property
    def growth_bytes(self) -> int:
        """By how much the last five unloads left more than the five after the first `WARM`.

        The least of five each time: what leaks stays, so it raises the least too, while pages that
        the allocator gives back a cycle later only raise a mean.
        """
        left = [cycle.unloaded_bytes for cycle in self.cycles[WARM:]]
        return min(left[-5:]) - min(left[:5])

    @property
    def problems(self) -> list[str]:
        """Growth of a tenth of the model or more is no noise of an allocator."""
        if self.growth_bytes < self.cycles[0].said_bytes / 10:
            return []
        return [f"{self.growth_bytes / 1e6:.1f} MB more are held after the last unloads"]


def measure(plan: Plan, tell: Tell) -> Result:
    """So many cycles of a model of the catalog, on one CPU thread.

    Raises:
        SourceError: its files cannot be had.
        BenchFailed: the runtime refused something.
    """
    card = Catalog.load().card(plan.model)
    profile = card.profile("cpu")
    load = load_of(card, fetch(card, cache_dir=None, offline=False), profile)
    tell(f"{plan.count} loads and unloads of {plan.model}")
    empty, cycles = asyncio.run(run(profile.runtime, [load] * plan.count))
    return Result(report.this_machine(["torch"]), plan.model, empty, cycles)


async def run(kind: str, loads: list[Load]) -> tuple[int, list[Cycle]]:
    """Resident set of the empty runtime, and one cycle for each of `loads`."""
    async with alone(kind) as runtime:
        empty = (await runtime.ask(AskStats(), Stats)).rss_bytes
        cycles = []
        for number, load in enumerate(loads):
            loaded = await runtime.ask(load, Loaded)
            await runtime.ask(_batch(number, load), Done)
            held = await runtime.ask(AskStats(), Stats)
            await runtime.ask(Unload(load.model), Unloaded)
            left = await runtime.ask(AskStats(), Stats)
            cycles.append(
                Cycle(load.model, loaded.bytes, held.rss_bytes, left.rss_bytes, loaded.seconds)
            )
        return empty, cycles


def _batch(number: int, load: Load) -> Run:
    lengths = np.minimum(_LENGTHS, load.max_tokens).astype(np.int32)
    tokens = np.arange(lengths.sum(), dtype=np.int32) % 100
    return Run(number, load.model, list(load.heads), to_wire(tokens), to_wire(lengths))


def table(result: Result) -> str:
    """Some of the cycles, the first and the last among them."""
    count = len(result.cycles)
    shown = sorted(
        {0, 1, WARM, count // 4, count // 2, 3 * count // 4, count - 1} & {*range(count)}
    )
    head = ["cycle", "load s", "said MB", "RSS loaded MB", "RSS unloaded MB"]
    rows = [
        [
            number + 1,
            (cycle := result.cycles[number]).load_s,
            cycle.said_bytes / 1e6,
            cycle.loaded_bytes / 1e6,
            cycle.unloaded_bytes / 1e6,
        ]
        for number in shown
    ]
    grown = f"growth of what unloads leave: {result.growth_bytes / 1e6:.1f} MB"
    empty = f"empty runtime: {result.empty_bytes / 1e6:.0f} MB; {grown}"
    return f"{report.table(head, rows)}\n\n{empty}"
