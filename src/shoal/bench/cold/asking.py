"""Requests for one text each to chosen models at chosen moments, and their latencies."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from shoal.bench.load import Arrivals, encode, generator
from shoal.bench.serving import Serving


class Answers(msgspec.Struct, frozen=True):
    """What came back, in the order of the moments; infinity where there was no answer.

    `began_at`: seconds since 1970, to be compared with logs.
    """

    due_s: list[float]
    models: list[str]
    latency_s: list[float]
    errors: dict[str, int]
    began_at: float

    @property
    def answered(self) -> int:
        return sum(s < math.inf for s in self.latency_s)

    def of(self, model: str, since: float = 0.0, until: float = math.inf) -> list[float]:
        """Ascending latencies of one model's requests that were under way between two moments."""
        return sorted(
            latency
            for due, name, latency in zip(self.due_s, self.models, self.latency_s, strict=True)
            if name == model and due < until and due + latency > since
        )


def ask(serving: Serving, moments: Sequence[tuple[float, str]], patience_s: float) -> Answers:
    """Send a text to each model at its moment (seconds from now), and wait for the answers."""
    due, models = [moment for moment, _ in moments], [name for _, name in moments]
    names = sorted(set(models))
    requests = [encode(name, ["a text of some words"]) for name in names]
    which = [names.index(name) for name in models]
    with generator() as load:
        outcome = load.ask(Arrivals([serving.address], requests, due, which, patience_s))
    return Answers(due, models, outcome.waited_s, outcome.errors, outcome.began_at)
