"""What a model that loads costs the one that runs beside it, on the same lane.

One worker, the hardest case: with several, the others would answer meanwhile. Requests come at an
even pace; those that were under way while the other model loaded are compared with the rest.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from shoal.bench.benchmark import Tell
from shoal.bench.cards import timed
from shoal.bench.cold import bert
from shoal.bench.cold.asking import ask
from shoal.bench.failure import BenchFailed
from shoal.bench.load import percentile
from shoal.bench.packing.history import History, read
from shoal.bench.serving import Serving
from shoal.catalog.fetch import fetch
from shoal.catalog.resolve import Catalog

REAL = "all-MiniLM-L6-v2"
FAKE, OTHER = "steady", "other"
PATIENCE_S = 70.0


class Plan(msgspec.Struct, frozen=True):
    """What to run. `lead_s`: before the other model is asked for, and after; `layers` and `hidden`
    of the real one that loads: 24 and 1024 are BERT large, 1.3 GB."""

    rate: float = 20.0
    lead_s: float = 8.0
    load_s: float = 3.0
    layers: int = 24
    hidden: int = 1024


class Stall(msgspec.Struct, frozen=True):
    """Latencies of the model that runs: while nothing else happens, and while another one loads."""

    kind: str
    requests: int
    answered: int
    load_s: float
    idle_p50_s: float
    idle_p99_s: float
    loading: int
    loading_p50_s: float
    loading_p99_s: float
    loading_worst_s: float

    @property
    def problems(self) -> list[str]:
        """A batch that waited for the load took about as long."""
        wrong = {
            f"{self.kind}: {self.requests - self.answered} unanswered": self.requests
            != self.answered,
            f"{self.kind}: a request took {self.loading_worst_s:.2f} s while another model loaded": (
                self.loading_worst_s > self.load_s / 2
            ),
        }
        return [what for what, is_so in wrong.items() if is_so]


def fake(plan: Plan, tell: Tell) -> Stall:
    """With the fake runtime, whose load sleeps."""
    tell(f"a fake model loads for {plan.load_s:g} s beside another one")
    return _measure(
        "fake", FAKE, {FAKE: timed(FAKE), OTHER: timed(OTHER, load_s=plan.load_s)}, plan
    )


def real(plan: Plan, tell: Tell) -> Stall:
    """MiniLM runs and a BERT with random weights loads. Raises `SourceError`."""
    files = fetch(Catalog.load().card(REAL), cache_dir=None, offline=False)
    with TemporaryDirectory(prefix="shoal-stall-") as folder:
        tell(f"a BERT of {plan.layers} layers of {plan.hidden} loads beside {REAL}")
        tokenizer = files / "tokenizer.json"
        card = bert.write(OTHER, Path(folder), tokenizer, plan.layers, plan.hidden)
        return _measure("torch", REAL, {OTHER: card}, plan)


def _load_of(model: str, serving: Serving) -> tuple[float, float]:
    """When its load began and ended, in seconds since 1970."""
    for event in History(read(serving.log())).events:
        if event.event == "loaded" and event.model == model:
            return event.time - event.s, event.time
    raise BenchFailed(f"{model} did not load:\n{serving.log()[-2000:]}")


def _measure(kind: str, model: str, cards: dict[str, str], plan: Plan) -> Stall:
    """Raises `BenchFailed` if the other model did not load."""
    seconds = 2 * plan.lead_s + 2 * plan.load_s
    steady = [(number / plan.rate, model) for number in range(int(seconds * plan.rate))]
    stack = Serving([model], cards=cards, gateways=2, lanes="cpu", threads=1, log_format="json")
    with stack as serving:
        ask(serving, steady[: int(plan.rate)], PATIENCE_S)  # kernels of the first batches
        moments = sorted([*steady, (plan.lead_s, OTHER)])
        answers = ask(serving, moments, PATIENCE_S)
        since, until = _load_of(OTHER, serving)
    since, until = since - answers.began_at, until - answers.began_at
    idle = answers.of(model, 0.0, since)
    loading = answers.of(model, since, until)
    return Stall(
        kind=kind,
        requests=len(moments),
        answered=answers.answered,
        load_s=until - since,
        idle_p50_s=percentile(idle, 0.5),
        idle_p99_s=percentile(idle, 0.99),
        loading=len(loading),
        loading_p50_s=percentile(loading, 0.5),
        loading_p99_s=percentile(loading, 0.99),
        loading_worst_s=loading[-1],
    )
