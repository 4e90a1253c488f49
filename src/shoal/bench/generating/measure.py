"""`python -m shoal.bench generate`: texts that kinds of runtime generate, each in a process of its own.

Asked over the socket, as a worker does; templates, tokens and the queue are left out. A kind takes part by
its name, as in `runtimes`: ``--kinds torch,KIND:CARD``. ``--bare URL`` is an SGLang server that is asked as the
kind ``sglang`` would, and has the tokens of the first side. Prompts are of one length and differ from their
first token on, so that nothing is computed twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import statistics
from typing import Annotated

import msgspec
import numpy as np

from shoal.bench import report
from shoal.bench.benchmark import Tell, option
from shoal.bench.generating.bare import bare
from shoal.bench.generating.streams import Asked, Asks, Stream, streams
from shoal.bench.runtime import alone
from shoal.bench.runtimes.sides import Side
from shoal.bench.texts import text
from shoal.errors import ConfigError
from shoal.wire.socket import Loaded


class Plan(msgspec.Struct, frozen=True):
    """How to measure."""

    kinds: Annotated[tuple[str, ...], option("Sides: KIND or KIND:CARD")] = ("torch",)
    model: Annotated[str, option("The card, where a side names none")] = "smollm2-135m-instruct"
    threads: Annotated[int, option("CPU threads of each side")] = 1
    bare: Annotated[str, option("URL of an SGLang server that is asked too, with no runtime")] = ""
    rounds: Annotated[int, option("Interleaved rounds; medians count")] = 5
    streams: Annotated[int, option("Sequences at once, where there are several")] = 8
    prompt_tokens: Annotated[int, option("Of each prompt")] = 64
    new_tokens: Annotated[int, option("Of each text")] = 64
    long_tokens: Annotated[int, option("Of the long prompt that comes among the others")] = 2048


class Round(msgspec.Struct, frozen=True):
    """One stream, several at once, and several with the long prompt, the last of them, among them."""

    one: list[Stream]
    many: list[Stream]
    beside: list[Stream]


class Measured(msgspec.Struct, frozen=True):
    """One side. `loaded_bytes`: as its runtime tells them."""

    name: str
    loaded_bytes: int
    rounds: list[Round]


class Result(report.Result, frozen=True):
    plan: Plan
    measured: list[Measured]


def measure(plan: Plan, tell: Tell) -> Result:
    """Rounds, in each of which all sides have their turn with the same prompts.

    Raises:
        ConfigError: a kind is unknown, not installed, or its card generates nothing.
        UnknownModel, SourceError, BenchFailed: as `runtimes`.
    """
    sides = [Side(asked, plan.model, plan.threads) for asked in plan.kinds]
    for side in sides:
        if not side.load.sequences:
            raise ConfigError(f"--kinds: the card of '{side.name}' generates nothing")
    measured = asyncio.run(_rounds(sides, plan, tell))
    return Result(report.this_machine(["torch", "transformers", "llguidance"]), plan, measured)


async def _rounds(sides: list[Side], plan: Plan, tell: Tell) -> list[Measured]:
    """The first round warms up."""
    async with contextlib.AsyncExitStack() as stack:
        asked: list[tuple[Side, Asks]] = []
        found: list[Measured] = []
        for side in sides:
            own = await stack.enter_async_context(alone(side.kind, plan.threads))
            loaded = await own.ask(side.load, Loaded)
            asked.append((side, own))
            found.append(Measured(side.name, loaded.bytes, []))
        if plan.bare:
            asked.append((sides[0], await stack.enter_async_context(bare(plan.bare))))
            found.append(Measured("bare", 0, []))
        for number in range(plan.rounds + 1):
            for (side, runtime), measured in zip(asked, found, strict=True):
                one = await _round(side, runtime, plan, number)
                tell(f"{measured.name}: {_rate(one.one):.1f} and {_rate(one.many):.1f} tokens/s")
                if number:
                    measured.rounds.append(one)
    return found


async def _round(side: Side, runtime: Asks, plan: Plan, number: int) -> Round:
    rng = random.Random(f"prompts {number}")

    def prompts(count: int, tokens: int) -> list[list[int]]:
        texts = [f"{rng.random()} {text(rng, tokens)}" for _ in range(count)]
        return [ids[:tokens] for ids in side.tokens(texts)]

    async def run(asked: list[Asked]) -> list[Stream]:
        return await streams(runtime, side.load.model, asked, number)

    short, new = plan.prompt_tokens, plan.new_tokens
    one = await run([Asked(p, new) for p in prompts(1, short)])
    many = await run([Asked(p, new) for p in prompts(plan.streams, short)])
    # It comes when the others have a quarter of their text, and the last of them ends after it began.
    beside = [Asked(p, 4 * new) for p in prompts(plan.streams - 1, short)]
    long = Asked(prompts(1, plan.long_tokens)[0], new, after=(plan.streams - 1) * new)
    return Round(one, many, await run([*beside, long]))


def _rate(found: list[Stream]) -> float:
    """Tokens a second of all of them together, from the first one's beginning."""
    return sum(len(s.tokens_s) for s in found) / max(s.tokens_s[-1] for s in found)


def table(result: Result) -> str:
    """Rates, seconds to the first token, and pauses."""
    plan = result.plan
    several = f"{plan.streams} streams"
    head = [
        "",
        "tokens/s, 1 stream",
        several,
        "first token ms, 1 stream",
        f"{several} p50",
        "p99",
        "longest pause ms",
        "beside the long prompt",
        "its first token s",
        "MB",
    ]
    told = (
        f"{plan.model}, {plan.threads} thread(s), prompts of {plan.prompt_tokens}, "
        f"{plan.new_tokens} new tokens, a long prompt of {plan.long_tokens}"
    )
    return f"{told}\n\n{report.table(head, [_row(side) for side in result.measured])}"


def _row(side: Measured) -> list[object]:
    median = statistics.median
    rounds = side.rounds
    firsts = [stream.first_s * 1e3 for one in rounds for stream in one.many]
    return [
        side.name,
        median(_rate(one.one) for one in rounds),
        median(_rate(one.many) for one in rounds),
        median(one.one[0].first_s * 1e3 for one in rounds),
        median(firsts),
        float(np.percentile(firsts, 99)),
        median(max(stream.pause_s for stream in one.many) * 1e3 for one in rounds),
        median(max(stream.pause_s for stream in one.beside[:-1]) * 1e3 for one in rounds),
        median(one.beside[-1].first_s for one in rounds),
        side.loaded_bytes / 1e6,
    ]
