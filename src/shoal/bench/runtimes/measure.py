"""`python -m shoal.bench runtimes`: one model in several kinds of runtime.

Each kind is a process as a worker starts it, asked over its socket. The worker's own part (tokenizing,
normalising, the queue) is the same for all and left out. The first side is what others are compared
with.

A kind takes part by its name, ``--kinds torch,KIND``: it must be one of the catalog's kinds, read tokens,
and be an extra of its own name in pyproject.toml, whose packages are weighed. Where it
loads other files than the first side, such as weights of 8 bits, they are a card, and ``KIND:CARD`` is
the side; or a profile of its card, and ``KIND::PROFILE`` is.
"""

from __future__ import annotations

import asyncio
import statistics
from typing import Annotated

import msgspec

from shoal.bench import report
from shoal.bench.benchmark import Tell, option
from shoal.bench.runtimes.asking import LENGTHS, Rounds, Start, rounds, starts
from shoal.bench.runtimes.installed import Installed, installed
from shoal.bench.runtimes.sides import CARDS, sides_of


class Plan(msgspec.Struct, frozen=True):
    """How to measure."""

    kinds: Annotated[tuple[str, ...], option("Sides: KIND, KIND:CARD or KIND::PROFILE")] = (
        "torch",
        "candle",
    )
    model: Annotated[str, option("The card, where a side names none")] = "all-MiniLM-L6-v2"
    catalog: Annotated[tuple[str, ...], option(CARDS)] = ()
    threads: Annotated[int, option("CPU threads of each side")] = 1
    starts: Annotated[int, option("Cold starts of each side; medians count")] = 5
    rounds: Annotated[int, option("Interleaved rounds; medians count")] = 7
    texts: Annotated[int, option("Texts of a batch")] = 64


class Measured(msgspec.Struct, frozen=True):
    """One side."""

    name: str
    installed: Installed
    starts: list[Start]
    rounds: Rounds


class Result(report.Result, frozen=True):
    plan: Plan
    measured: list[Measured]


def measure(plan: Plan, tell: Tell) -> Result:
    """Cold starts of all sides in turn, then rounds.

    Raises:
        ConfigError: a kind is unknown, or its packages are not installed.
        CardError: `catalog` holds none, or a wrong one.
        UnknownModel: a card is not in the catalog.
        SourceError: its files cannot be had.
        BenchFailed: a runtime refused something.
    """
    sides = sides_of(plan.kinds, plan.model, plan.threads, plan.catalog)
    cold = asyncio.run(starts(sides, plan.starts, plan.threads, tell))
    warm = asyncio.run(rounds(sides, plan.rounds, plan.texts, plan.threads, tell))
    measured = [
        Measured(side.name, installed(side.kind), cold[side.name], warm[side.name])
        for side in sides
    ]
    packages = ["torch", "candding", "onnxruntime"]
    return Result(report.this_machine(packages), plan, measured)


def table(result: Result) -> str:
    """What a side weighs and when it first answers; then what it answers in a second."""
    plan, measured = result.plan, result.measured
    head = ["", "Shoal MB", "added MB", "hello s", "loaded s", "first vector s", "RSS MB"]
    weight = report.table(head, [_weight(side) for side in measured])
    ratios = [f"ratio, {lengths}" for lengths in LENGTHS]
    rows = [_speed(side, measured[0], plan.texts) for side in measured]
    speed = report.table(["texts/s", *LENGTHS, *ratios, "cosine ≥"], rows)
    rows = [_cpu(side, measured[0], plan.texts) for side in measured]
    cpu = report.table(["CPU ms/text", *LENGTHS, *ratios], rows)
    told = f"{plan.model}, {plan.threads} thread(s), {plan.texts} texts a batch"
    return "\n\n".join([told, weight, speed, cpu])


def _weight(side: Measured) -> list[object]:
    own, added = side.installed.own_bytes / 1e6, side.installed.added_bytes / 1e6
    seconds = zip(*map(msgspec.structs.astuple, side.starts), strict=True)
    return [side.name, own, added, *map(statistics.median, seconds), side.rounds.rss_bytes / 1e6]


def _speed(side: Measured, first: Measured, texts: int) -> list[object]:
    ours, theirs = side.rounds.seconds, first.rounds.seconds
    rates = [texts / statistics.median(ours[lengths]) for lengths in LENGTHS]
    return [side.name, *rates, *_ratios(ours, theirs), f"{side.rounds.cosine:.6f}"]


def _cpu(side: Measured, first: Measured, texts: int) -> list[object]:
    """Ratios here are of what a second of a core does."""
    ours, theirs = side.rounds.cpu_s, first.rounds.cpu_s
    costs_ms = [statistics.median(ours[lengths]) / texts * 1e3 for lengths in LENGTHS]
    return [side.name, *costs_ms, *_ratios(ours, theirs)]


def _ratios(ours: dict[str, list[float]], theirs: dict[str, list[float]]) -> list[str]:
    """Those of the rounds, the same texts on both sides; their median."""
    pairs = (zip(ours[lengths], theirs[lengths], strict=True) for lengths in LENGTHS)
    return [f"{statistics.median(b / a for a, b in pair):.2f}×" for pair in pairs]
