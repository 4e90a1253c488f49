"""Requests for one text each to chosen models at chosen moments, and their latencies."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from shoal.bench.load import percentile, request
from shoal.bench.openloop import Arrivals, open_generator
from shoal.bench.serving import Serving

_TYPE = "application/json"


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
    names = sorted({name for _, name in moments})
    body = msgspec.json.encode({"items": ["a text of some words"]})
    requests = [request("h", f"/v1/encode/{name}", body, _TYPE, _TYPE) for name in names]
    which = [names.index(name) for _, name in moments]
    due = [moment for moment, _ in moments]
    target = [(serving.host, serving.port)]
    with open_generator() as generator:
        answered = generator.ask(Arrivals(target, requests, due, which, patience_s))
    latency = [math.inf if s is None else s for s in answered.latency_s]
    models = [name for _, name in moments]
    return Answers(due, models, latency, answered.errors, answered.began_at)


def p99(latencies: Sequence[float]) -> float:
    """Of ascending latencies."""
    return percentile(latencies, 0.99)
