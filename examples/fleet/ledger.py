"""Performs the steps of a review: what each said is told as it comes, at the end what each cost."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from openai import OpenAIError
from openai.types import CompletionUsage

import shoal
from shoal.client import Encoded, Extracted, Scored
from shoal.errors import ShoalError

T = TypeVar("T")
Told = Encoded | Extracted | Scored

WIDTH = 100
#: Until a worker's pulse has told the gateway of a model: ten of its periods.
TOLD_S = 5.0


class Row(NamedTuple):
    """What a step cost."""

    step: str
    model: str
    runtime: str
    ms: float
    prompt_tokens: int
    new_tokens: int


class Ledger:
    """A row a step."""

    def __init__(self, client: shoal.Client) -> None:
        self._client = client
        self._rows: list[Row] = []

    def step(
        self,
        step: str,
        model: str,
        ask: Callable[[str], tuple[Told | CompletionUsage, T]],
        shown: Callable[[T], str],
    ) -> T:
        """Its answer; tokens are as whoever was asked tells them. An error ends the review."""
        began = time.perf_counter()
        try:
            told, answer = ask(model)
            took_ms = (time.perf_counter() - began) * 1000
            if isinstance(told, CompletionUsage):
                tokens = told.prompt_tokens, told.completion_tokens
            else:
                for error in told.errors.values():
                    raise error
                tokens = int(told.tokens.sum()), 0
        except (ShoalError, OpenAIError) as error:
            raise SystemExit(f"{step} by {model}: {error}") from None
        self._rows.append(Row(step, model, runtime_of(self._client, model), took_ms, *tokens))
        tell(step, shown(answer))
        return answer

    def tell(self) -> None:
        """The rows, and how many models they are about."""
        print(f"\n{'step':<12}{'model':<25}{'runtime':<9}{'ms':>6}{'prompt':>8}{'new':>5}")
        for step, model, runtime, ms, prompt_tokens, new_tokens in self._rows:
            print(f"{step:<12}{model:<25}{runtime:<9}{ms:6.0f}{prompt_tokens:8}{new_tokens:5}")
        print(f"{len(self._rows)} steps, {len({row.model for row in self._rows})} models")


def tell(step: str, answer: str) -> None:
    """What a step answered, over as many lines as it needs."""
    print(textwrap.fill(f"{step:<12}{answer}", WIDTH, subsequent_indent=" " * 12), flush=True)


def runtime_of(client: shoal.Client, name: str) -> str:
    """Which kind of runtime computes a model, as workers tell with their pulses, twice a second.

    Asked while the model is there: one that comes and goes between two pulses is told by none.
    """
    until = time.monotonic() + TOLD_S
    while True:
        told = next(model.runtime for model in client.models() if model.id == name)
        if told or time.monotonic() > until:
            return told or "?"
        time.sleep(0.1)
