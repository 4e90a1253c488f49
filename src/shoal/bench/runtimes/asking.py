"""Runtime processes, started and asked in turn: how soon each answers, how fast, and what."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from shoal.bench.benchmark import Tell
from shoal.bench.processes import scheduled_s
from shoal.bench.runtime import Alone, alone
from shoal.bench.runtimes.sides import Side
from shoal.bench.texts import MEDIAN_TOKENS, mixed_length, short_length, text
from shoal.wire.arrays import from_wire, to_wire
from shoal.wire.socket import AskStats, Done, Loaded, Run, Stats

#: Texts of a round, by what their lengths are like.
LENGTHS: dict[str, Callable[[random.Random], int]] = {
    "equal": lambda _: MEDIAN_TOKENS,
    "mixed": mixed_length,
    "short": short_length,
}

Vectors = NDArray[np.float32]


class Start(msgspec.Struct, frozen=True):
    """Seconds from the start of a process until it said hello, until its model was loaded, and until
    the first vector came."""

    hello_s: float
    loaded_s: float
    first_s: float


class Rounds(msgspec.Struct):
    """All rounds of a side. `seconds`: of a batch, by `LENGTHS`; `cpu_s`: what its process ran meanwhile,
    which other programs change less; `cosine`: the least of a text's vector to the first side's;
    `rss_bytes`: of the process after the last round."""

    seconds: dict[str, list[float]]
    cpu_s: dict[str, list[float]]
    cosine: float = 1.0
    rss_bytes: int = 0


async def starts(
    sides: Sequence[Side], count: int, threads: int, tell: Tell
) -> dict[str, list[Start]]:
    """So many starts of every side, one process at a time, after one that brings files to memory."""
    found: dict[str, list[Start]] = {side.name: [] for side in sides}
    for number in range(count + 1):
        for side in sides:
            start = await _start(side, threads)
            tell(f"{side.name}: the first vector after {start.first_s:.2f} s")
            if number:
                found[side.name].append(start)
    return found


async def _start(side: Side, threads: int) -> Start:
    """The first text has twelve tokens; what it says makes no difference."""
    first = _batch(side, [[*range(12)]])
    began = time.perf_counter()
    async with alone(side.kind, threads) as runtime:
        hello = time.perf_counter()
        await runtime.ask(side.load, Loaded)
        loaded = time.perf_counter()
        await runtime.ask(first, Done)
        return Start(hello - began, loaded - began, time.perf_counter() - began)


async def rounds(
    sides: Sequence[Side], count: int, texts: int, threads: int, tell: Tell
) -> dict[str, Rounds]:
    """Every side gets the same texts in one batch, while the others wait; the first round warms up."""
    found = {side.name: Rounds(_by_lengths(), _by_lengths()) for side in sides}
    async with contextlib.AsyncExitStack() as stack:
        loaded = [(side, await _loaded(stack, side, threads)) for side in sides]
        for number in range(count + 1):
            for lengths, length in LENGTHS.items():
                rng = random.Random(f"{lengths} {number}")
                drawn = [text(rng, length(rng)) for _ in range(texts)]
                said = [await _round(runtime, side, drawn) for side, runtime in loaded]
                for side, one in zip(sides, said, strict=True):
                    tell(f"{side.name}, {lengths} lengths: {texts / one.seconds:,.0f} texts/s")
                    own = found[side.name]
                    own.cosine = min(own.cosine, _least_cosine(one.vectors, said[0].vectors))
                    if number:
                        own.seconds[lengths].append(one.seconds)
                        own.cpu_s[lengths].append(one.cpu_s)
        for side, runtime in loaded:
            found[side.name].rss_bytes = (await runtime.ask(AskStats(), Stats)).rss_bytes
    return found


def _by_lengths() -> dict[str, list[float]]:
    return {lengths: [] for lengths in LENGTHS}


async def _loaded(stack: contextlib.AsyncExitStack, side: Side, threads: int) -> Alone:
    runtime = await stack.enter_async_context(alone(side.kind, threads))
    await runtime.ask(side.load, Loaded)
    return runtime


class _Asked(NamedTuple):
    seconds: float
    cpu_s: float
    vectors: Vectors


async def _round(runtime: Alone, side: Side, texts: list[str]) -> _Asked:
    """One batch of these texts, which are tokenized before."""
    batch = _batch(side, side.tokens(texts))
    ran_s, _ = scheduled_s([runtime.process.pid])
    began = time.perf_counter()
    done = await runtime.ask(batch, Done)
    seconds = time.perf_counter() - began
    cpu_s = scheduled_s([runtime.process.pid])[0] - ran_s
    return _Asked(seconds, cpu_s, from_wire(done.arrays[side.head]))


def _batch(side: Side, items: list[list[int]]) -> Run:
    tokens = np.array([token for item in items for token in item], np.int32)
    lengths = np.array([len(item) for item in items], np.int32)
    return Run(1, side.load.model, [side.head], to_wire(tokens), to_wire(lengths))


def _least_cosine(ours: Vectors, theirs: Vectors) -> float:
    """Of rows; scores, which are rows of one number, count as one."""
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    if a.shape[1] == 1:
        a, b = a.T, b.T
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return float(((a * b).sum(axis=1) / norms).min())
