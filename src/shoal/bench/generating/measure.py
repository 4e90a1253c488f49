"""`python -m shoal.bench generate`: texts that kinds of runtime generate, each in a process of its own.

Asked over the socket, as a worker does; templates, tokens and the queue are left out. A kind takes part by
its name, as in `runtimes`: ``--kinds torch,KIND:CARD``. ``--bare`` names what is asked too, with no runtime
before it and the tokens of the first side: the URL of an SGLang server, which is asked as the kind ``sglang``
would; ``transformers`` or ``mistralrs``, in a process of its own. Prompts differ from their first token on, so
that nothing is computed twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import statistics
from collections.abc import Awaitable, Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
import numpy as np

from shoal.bench import report
from shoal.bench.benchmark import Tell, option
from shoal.bench.generating.bare import bare
from shoal.bench.generating.library import NAMES, Turn, library
from shoal.bench.generating.streams import Asked, Stream, ended_before, streams
from shoal.bench.rivals import thread_limits
from shoal.bench.runtime import alone
from shoal.bench.runtimes.sides import CARDS, Side, sides_of
from shoal.bench.texts import mixed_length, text
from shoal.errors import ConfigError
from shoal.wire.socket import Loaded

#: Of a prompt beside texts, in a pass: fewer are in none (`runtimes.generating.pace`).
_LEAST_PIECE = 16
#: Kinds whose store of keys is as large as the option `cache_tokens` says.
_STORING = ("torch", "gguf")


class Plan(msgspec.Struct, frozen=True):
    """How to measure."""

    kinds: Annotated[tuple[str, ...], option("Sides: KIND or KIND:CARD")] = ("torch",)
    model: Annotated[str, option("The card, where a side names none")] = "smollm2-135m-instruct"
    catalog: Annotated[tuple[str, ...], option(CARDS)] = ()
    threads: Annotated[int, option("CPU threads of each side")] = 1
    bare: Annotated[
        tuple[str, ...], option("Asked too: transformers, mistralrs, URL of an SGLang server")
    ] = ()
    rounds: Annotated[int, option("Interleaved rounds; medians count")] = 5
    streams: Annotated[int, option("Sequences at once, where there are several")] = 8
    prompt_tokens: Annotated[int, option("Of each prompt")] = 64
    new_tokens: Annotated[int, option("Of each text")] = 64
    long_tokens: Annotated[
        int, option("Of the long prompt that comes among the others; 0: as many as the model takes")
    ] = 2048


class Round(msgspec.Struct, frozen=True):
    """One stream; several at once; twice as many of mixed lengths, for as many places; and several with the
    long prompt, the last of them, among them: none where a library takes none in the midst of others."""

    one: list[Stream]
    many: list[Stream]
    mixed: list[Stream]
    beside: list[Stream]

    @property
    def usual_s(self) -> float:
        """Between two tokens, before the long prompt came."""
        *others, long = self.beside
        return statistics.median(p for s in others for p in s.pauses_s(until_s=long.began_s))

    @property
    def paused_s(self) -> float:
        """The longest, since it came."""
        *others, long = self.beside
        return max(p for s in others for p in s.pauses_s(since_s=long.began_s))


class Measured(msgspec.Struct, frozen=True):
    """One side. `loaded_bytes`: as its runtime tells them."""

    name: str
    loaded_bytes: int
    rounds: list[Round]


class Result(report.Result, frozen=True):
    plan: Plan
    measured: list[Measured]

    @property
    def problems(self) -> list[str]:
        """Texts that ended while the long prompt was read say nothing of the rest of it."""
        return [
            f"{side.name}: texts ended before the long prompt was read"
            for side in self.measured
            if any(ended_before(one.beside) for one in side.rounds if one.beside)
        ]


class _Party(NamedTuple):
    """What is measured, and how it is asked; `joins`: it takes a prompt in the midst of others."""

    measured: Measured
    run: Callable[[list[Asked], int], Awaitable[list[Stream]]]
    joins: bool = True


def measure(plan: Plan, tell: Tell) -> Result:
    """Rounds, in each of which all sides have their turn with the same prompts.

    Raises:
        ConfigError: a kind is unknown, not installed, or its card generates nothing; a library is not installed.
        CardError, UnknownModel, SourceError, BenchFailed: as `runtimes`.
    """
    sides = sides_of(plan.kinds, plan.model, plan.threads, plan.catalog)
    for side in sides:
        if not side.load.sequences:
            raise ConfigError(f"--kinds: the card of '{side.name}' generates nothing")
    for name in plan.bare:
        if name in NAMES and find_spec(name) is None:
            raise ConfigError(f"--bare: {name} is not installed here: pip install {name}")
    plan = _limited(plan, min(side.load.max_tokens for side in sides))
    measured = asyncio.run(_rounds(sides, plan, tell))
    packages = ["torch", "transformers", "mistralrs", "xllamacpp", "llguidance"]
    return Result(report.this_machine(packages), plan, measured)


def _limited(plan: Plan, max_tokens: int) -> Plan:
    """With the long prompt as long as the model takes it, if that is what was asked."""
    most = max_tokens - plan.new_tokens
    return msgspec.structs.replace(plan, long_tokens=min(plan.long_tokens or most, most))


def _beside_tokens(plan: Plan) -> int:
    """Of the texts beside the long prompt: more than it is in pieces."""
    return plan.long_tokens // _LEAST_PIECE + 2 * plan.new_tokens


async def _rounds(sides: list[Side], plan: Plan, tell: Tell) -> list[Measured]:
    """The first round warms up."""
    async with contextlib.AsyncExitStack() as stack:
        parties = [await _side(side, plan, stack) for side in sides]
        parties += [await _bare(name, sides[0], plan, stack) for name in plan.bare]
        for number in range(plan.rounds + 1):
            for party in parties:
                one = await _round(party, sides[0], plan, number)
                rates = " and ".join(f"{_rate(found):.1f}" for found in (one.one, one.many))
                tell(f"{party.measured.name}: {rates} tokens/s")
                if number:
                    party.measured.rounds.append(one)
    return [party.measured for party in parties]


async def _side(side: Side, plan: Plan, stack: contextlib.AsyncExitStack) -> _Party:
    """A runtime, with room for the long prompt beside the others."""
    runtime = await stack.enter_async_context(alone(side.kind, plan.threads))
    load, others = side.load, plan.streams - 1
    room = load.max_tokens + others * (plan.prompt_tokens + _beside_tokens(plan))
    if side.kind in _STORING:
        load = msgspec.structs.replace(load, options=load.options | {"cache_tokens": room})
    loaded = await runtime.ask(load, Loaded)
    return _Party(Measured(side.name, loaded.bytes, []), partial(streams, runtime, load.model))


async def _bare(name: str, side: Side, plan: Plan, stack: contextlib.AsyncExitStack) -> _Party:
    """A library, by its name; else a server, by its URL."""
    measured = Measured(name, 0, [])
    if name not in NAMES:
        server = await stack.enter_async_context(bare(name))
        return _Party(measured, partial(streams, server, side.load.model))
    folder, limits = Path(side.load.path), thread_limits(plan.threads)
    helper = stack.enter_context(library(name, folder, plan.streams, limits))

    async def run(asked: list[Asked], _: int) -> list[Stream]:
        return (await asyncio.to_thread(helper.ask, Turn(asked))).streams

    return _Party(measured, run, joins=False)


async def _round(party: _Party, side: Side, plan: Plan, number: int) -> Round:
    rng = random.Random(f"prompts {number}")

    def prompt(tokens: int) -> list[int]:
        (ids,) = side.tokens([f"{rng.random()} {text(rng, tokens)}"])
        return ids[:tokens]

    async def run(asked: list[Asked]) -> list[Stream]:
        return await party.run(asked, number)

    short, new = plan.prompt_tokens, plan.new_tokens
    one = await run([Asked(prompt(short), new)])
    many = await run([Asked(prompt(short), new) for _ in range(plan.streams)])
    mixed = await run(
        [
            Asked(prompt(mixed_length(rng)), rng.randint(new // 4, 7 * new // 4))
            for _ in range(2 * plan.streams)
        ]
    )
    if not party.joins:
        return Round(one, many, mixed, [])
    most, others = _beside_tokens(plan), plan.streams - 1
    beside = [Asked(prompt(short), most, beside=True) for _ in range(others)]
    # It comes when the others have so many tokens each.
    long = Asked(prompt(plan.long_tokens), new, after=others * new)
    return Round(one, many, mixed, await run([*beside, long]))


def _rate(found: list[Stream]) -> float:
    """Tokens a second of all of them together, from the first one's beginning."""
    return sum(len(s.tokens_s) for s in found) / max(s.tokens_s[-1] for s in found)


def table(result: Result) -> str:
    """Rates, seconds to the first token, and pauses; then the first side by what is bare."""
    plan = result.plan
    several = f"{plan.streams} streams"
    head = [
        "",
        "tokens/s, 1 stream",
        several,
        "mixed",
        "first token ms, 1 stream",
        f"{several} p50",
        "p99",
        "longest pause ms",
        "beside the long prompt",
        "times the usual",
        "its first token s",
        "MB",
    ]
    told = (
        f"{plan.model}, {plan.threads} thread(s), prompts of {plan.prompt_tokens}, "
        f"{plan.new_tokens} new tokens, a long prompt of {plan.long_tokens}"
    )
    shown = f"{told}\n\n{report.table(head, [_row(side) for side in result.measured])}"
    first, bare = result.measured[0], result.measured[len(plan.kinds) :]
    if not bare:
        return shown
    head = [f"{first.name} by", "1 stream", several, "mixed"]
    return f"{shown}\n\n{report.table(head, [_ratios(first, side) for side in bare])}"


def _row(side: Measured) -> list[object]:
    median = statistics.median
    rounds = side.rounds
    firsts = [stream.first_s * 1e3 for one in rounds for stream in one.many]
    row: list[object] = [
        side.name,
        *(median(map(_rate, rates)) for rates in _kinds(side)),
        median(one.one[0].first_s * 1e3 for one in rounds),
        median(firsts),
        float(np.percentile(firsts, 99)),
        median(max(stream.pause_s for stream in one.many) * 1e3 for one in rounds),
    ]
    if not all(one.beside for one in rounds):
        return [*row, "", "", "", ""]
    return [
        *row,
        median(one.paused_s * 1e3 for one in rounds),
        f"{median(one.paused_s / one.usual_s for one in rounds):.1f}",
        median(one.beside[-1].first_s for one in rounds),
        side.loaded_bytes / 1e6,
    ]


def _kinds(side: Measured) -> list[list[list[Stream]]]:
    """What rates are told of, of all rounds."""
    rounds = side.rounds
    return [[r.one for r in rounds], [r.many for r in rounds], [r.mixed for r in rounds]]


def _ratios(ours: Measured, bare: Measured) -> list[object]:
    pairs = zip(_kinds(ours), _kinds(bare), strict=True)
    return [
        bare.name,
        *(report.ratio([_rate(a) / _rate(b) for a, b in zip(*p, strict=True)]) for p in pairs),
    ]
