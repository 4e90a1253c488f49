"""What the topology benchmark measured, and how it is shown."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import msgspec

from shoal.bench import report
from shoal.bench.knee import MOST_TRIES
from shoal.bench.topology.tables import Timing
from shoal.bench.topology.traffic import Traffic


class Scenario(msgspec.Struct, frozen=True):
    """One kind of device under several kinds of traffic. `model`: a real one of the catalog."""

    timing: Timing
    traffics: list[Traffic]
    workers: int
    lanes: int = 1
    model: str | None = None

    @property
    def devices(self) -> int:
        return self.workers * self.lanes

    @property
    def models(self) -> list[str]:
        """All models that any of the traffic asks for."""
        return [self.model] if self.model else max(self.traffics, key=lambda t: t.models).names()

    def capacity(self, request_tokens: float) -> float:
        """Requests a second of devices that only run full batches."""
        return self.devices * self.timing.tokens_per_s / request_tokens


class Plan(msgspec.Struct, frozen=True):
    """`seconds`: of one try at least, beside its warm-up; never less than three times the goal.

    `tries`: the most of one search.
    """

    scenarios: list[Scenario]
    gateways: int = 2
    seconds: float = 3.0
    rounds: int = 2
    tries: int = MOST_TRIES


class Try(msgspec.Struct, frozen=True):
    """One run at one rate.

    Attributes:
        p50_s, p99_s: infinite where so many were not answered at all.
        cores: processor time a second of the deployment, the broker and the generator.
        machine: share of all cores that were busy, whoever kept them so.
        busy: share of the time in which a device computed.
        late_s: the most that the generator itself was behind.
    """

    rate: float
    sent: int
    answered: int
    p50_s: float
    p99_s: float
    cores: float
    machine: float
    busy: float
    batch_tokens: float
    late_s: float
    errors: dict[str, int]


class Measured(msgspec.Struct):
    """One topology under one traffic: what was tried, the knee of each round, and half load."""

    topology: str
    tries: list[Try] = []
    knees: list[float] = []
    half: list[Try] = []

    @property
    def knee(self) -> float:
        """The median of the rounds."""
        return statistics.median(self.knees)

    def at_knee(self) -> list[Try]:
        """The tries at each round's knee."""
        return [next(t for t in reversed(self.tries) if t.rate == k) for k in self.knees if k]


class Compared(msgspec.Struct, frozen=True):
    """All topologies under one traffic; the first one is the pull queue."""

    scenario: Scenario
    traffic: Traffic
    request_tokens: float
    measured: list[Measured]


class Result(report.Result, frozen=True):
    plan: Plan
    compared: list[Compared]


def table(result: Result) -> str:
    """One row for each traffic and topology; latencies are those at half of the lowest knee."""
    head = ["devices", "traffic", "topology", "requests/s at the knee", "range", "tokens/s"]
    head += ["pull is", "tokens a batch", "busy %", "half load: p50 ms", "p99 ms"]
    head += ["cores", "machine %"]
    rows = [_row(c, one) for c in result.compared for one in c.measured]
    return report.table(head, rows)


def _row(compared: Compared, one: Measured) -> list[object]:
    scenario, tries = compared.scenario, one.at_knee()
    pull = compared.measured[0].knee
    return [
        f"{scenario.devices} × {scenario.timing.name}",
        compared.traffic.name,
        one.topology,
        round(one.knee),
        f"{min(one.knees):.0f} to {max(one.knees):.0f}",
        round(one.knee * compared.request_tokens),
        f"{pull / one.knee:.2f}×" if one.knee else "-",
        _median([t.batch_tokens for t in tries]),
        _median([100 * t.busy for t in tries]),
        _median([1e3 * t.p50_s for t in one.half]),
        _median([1e3 * t.p99_s for t in one.half]),
        _median([t.cores for t in tries]),
        _median([100 * t.machine for t in tries]),
    ]


def _median(values: Sequence[float]) -> float:
    return statistics.median(values) if values else math.nan
