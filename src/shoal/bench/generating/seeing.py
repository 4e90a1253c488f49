"""`python -m shoal.bench seeing`: what a picture in a conversation does to the texts that are written beside it.

The torch runtime, in a process of its own, asked over its socket as a worker asks it. The model has random
weights (`smolvlm`), so that it says how long things take and nothing of answers. Pictures, squares and
prompts are random too, and none comes twice: nothing is known from before.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np

from shoal.bench import report
from shoal.bench.benchmark import Tell, option
from shoal.bench.generating import smolvlm
from shoal.bench.generating.streams import Asked, Stream, ended_before, streams
from shoal.bench.runtime import Alone, alone
from shoal.errors import ConfigError
from shoal.runtimes.packages import missing
from shoal.wire.arrays import to_wire
from shoal.wire.socket import Load, Loaded

#: Of the prompt with the picture, before it and behind it.
_AROUND = 8


class Plan(msgspec.Struct, frozen=True):
    """How to measure. `shape`: of the model."""

    pixels: Annotated[tuple[int, ...], option("Sides of the pictures, in pixels")] = (512,)
    streams: Annotated[int, option("Texts beside a picture")] = 7
    threads: Annotated[int, option("CPU threads of the runtime")] = 1
    rounds: Annotated[int, option("Interleaved rounds; medians count")] = 3
    prompt_tokens: Annotated[int, option("Of each text's prompt")] = 32
    new_tokens: Annotated[int, option("Of each text, before the picture comes")] = 32
    shape: smolvlm.Shape = smolvlm.Shape()


class Round(msgspec.Struct, frozen=True):
    """Texts, and the one about a picture, the last of them, which came when all others were under way."""

    streams: list[Stream]

    @property
    def asked_s(self) -> float:
        """When the picture came."""
        return self.streams[-1].began_s

    @property
    def first_s(self) -> float:
        """To the first token about it."""
        return self.streams[-1].first_s

    @property
    def without_s(self) -> list[float]:
        """Between two tokens of a text, once all texts had begun and before the picture came."""
        *others, _ = self.streams
        began = max(text.tokens_s[0] for text in others)
        # A pause that ends there is what reading the last prompt cost.
        return [
            pause
            for text in others
            for pause in Stream(0.0, [at for at in text.tokens_s if at > began]).pauses_s(
                until_s=self.asked_s
            )
        ]

    @property
    def beside_s(self) -> list[float]:
        """Likewise, since the picture came."""
        *others, _ = self.streams
        return [pause for text in others for pause in text.pauses_s(since_s=self.asked_s)]


class Measured(msgspec.Struct, frozen=True):
    """Of pictures of one size. `squares`: that the model looks at, the whole included."""

    pixels: int
    squares: int
    rounds: list[Round]


class Result(report.Result, frozen=True):
    """`weights`: how many the model has."""

    plan: Plan
    weights: int
    measured: list[Measured]

    @property
    def problems(self) -> list[str]:
        """Texts that ended while the picture was looked at say nothing of the rest of it."""
        return [
            f"{of.pixels} pixels: texts ended before the picture was seen"
            for of in self.measured
            if any(ended_before(one.streams) for one in of.rounds)
        ]


def measure(plan: Plan, tell: Tell) -> Result:
    """Rounds, in each of which every size has its turn; the first one warms up.

    Raises:
        ConfigError: torch is not installed, or a plan that says nothing of pauses or that the model has no room for.
        BenchFailed: the runtime failed.
    """
    if (lacking := missing("torch")) is not None:
        raise ConfigError(lacking)
    most = _checked(plan)
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as home:
        tell("writing a model with random weights")
        weights = smolvlm.write(Path(home), plan.shape)
        load = smolvlm.load_of(
            Path(home), plan.shape, plan.streams + 1, (plan.streams + 1) * most, plan.threads
        )
        measured = asyncio.run(_rounds(load, plan, tell))
    return Result(report.this_machine(["torch"]), plan, weights, measured)


def _checked(plan: Plan) -> int:
    """Tokens of the longest sequence. Raises `ConfigError`."""
    for name, value, least in [
        ("streams", plan.streams, 1),
        ("rounds", plan.rounds, 1),
        ("prompt-tokens", plan.prompt_tokens, 1),
        ("new-tokens", plan.new_tokens, 4),
        *(("pixels", pixels, 1) for pixels in plan.pixels),
    ]:
        if value < least:
            raise ConfigError(f"--{name}: {value} is too little; {least} at least")
    most = 0
    for pixels in plan.pixels:
        picture = plan.shape.squares(pixels) * plan.shape.tokens + 2 * _AROUND + plan.new_tokens
        longest = max(picture, plan.prompt_tokens + _beside_tokens(plan, pixels))
        if longest > plan.shape.max_tokens:
            raise ConfigError(
                f"--pixels: beside a picture of {pixels} a text may need {longest} tokens, and the model "
                f"takes {plan.shape.max_tokens}; ask for a smaller picture"
            )
        most = max(most, longest)
    return most


def _beside_tokens(plan: Plan, pixels: int) -> int:
    """Of the texts beside a picture: more than it has stages and pieces, two passes of each."""
    shape = plan.shape
    passes = shape.squares(pixels) * (2 * shape.vision_layers + 2 + shape.tokens)
    return 2 * passes + 4 * plan.new_tokens


async def _rounds(load: Load, plan: Plan, tell: Tell) -> list[Measured]:
    measured = [Measured(pixels, plan.shape.squares(pixels), []) for pixels in plan.pixels]
    rng = np.random.default_rng(5)
    async with alone("torch", plan.threads) as runtime:
        await runtime.ask(load, Loaded)
        for number in range(plan.rounds + 1):
            for of in measured:
                one = await _round(runtime, load.model, of, plan, rng)
                tell(f"{of.pixels} pixels: {max(one.beside_s):.2f} s beside the picture")
                if number:
                    of.rounds.append(one)
    return measured


async def _round(
    runtime: Alone, model: str, of: Measured, plan: Plan, rng: np.random.Generator
) -> Round:
    shape = plan.shape

    def prompt(tokens: int) -> list[int]:
        ids: list[int] = rng.integers(3, shape.place, tokens).tolist()
        return ids

    most = _beside_tokens(plan, of.pixels)
    beside = [Asked(prompt(plan.prompt_tokens), most, beside=True) for _ in range(plan.streams)]
    pixels = rng.integers(0, 256, (of.squares, shape.side, shape.side, 3), np.uint8)
    seen = [shape.place] * (of.squares * shape.tokens)
    about = Asked(
        prompt(_AROUND) + seen + prompt(_AROUND),
        plan.new_tokens,
        after=plan.streams * plan.new_tokens,
        images=to_wire(pixels),
    )
    return Round(await streams(runtime, model, [*beside, about], 0))


def table(result: Result) -> str:
    """A row a size, of medians of the rounds."""
    plan = result.plan
    told = (
        f"random weights, {result.weights / 1e6:.0f} million in SmolVLM's architecture: no real model; "
        f"{plan.streams} texts, {plan.threads} thread(s), prompts of {plan.prompt_tokens} tokens"
    )
    head = [
        "picture",
        "squares",
        "texts beside",
        "usual ms between tokens",
        "longest pause ms without",
        "with the picture",
        "times",
        "first token about it s",
    ]
    return f"{told}\n\n{report.table(head, [_row(of, plan) for of in result.measured])}"


def _row(of: Measured, plan: Plan) -> list[object]:
    median, rounds = statistics.median, of.rounds
    return [
        f"{of.pixels} × {of.pixels}",
        of.squares,
        plan.streams,
        median(median(one.without_s) for one in rounds) * 1e3,
        median(max(one.without_s) for one in rounds) * 1e3,
        median(max(one.beside_s) for one in rounds) * 1e3,
        report.ratio([max(one.beside_s) / max(one.without_s) for one in rounds]),
        median(one.first_s for one in rounds),
    ]
