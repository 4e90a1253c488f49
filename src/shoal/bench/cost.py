"""How far the cost model's predictions are off, beside what repeating one batch is off by itself.

A real deployment serves mixed traffic for one model; the batches are those that its workers form.
A second copy of the same model is asked the same few requests again and again, at the same time and
on the same lanes: batches never mix models, so each of those repeats is the very same batch. What
they differ by among themselves, no predictor could know: that is the noise floor.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterator, Sequence
from typing import Annotated

import msgspec

from shoal.bench import report
from shoal.bench.benchmark import Tell, option
from shoal.bench.failure import BenchFailed
from shoal.bench.load import Generator, Load, ask_together, encode, generator, percentile
from shoal.bench.serving import Serving
from shoal.bench.texts import mixed_length, short_length, text
from shoal.catalog.parse import to_yaml
from shoal.catalog.resolve import Catalog

MODEL = "all-MiniLM-L6-v2"
PROBE = "probe"
#: Batches of a model that do not count: the seed is another machine's.
WARM_UP = 60
#: Goals: a median and a 90th percentile, or so many times the floor's where that is more.
GOAL_P50, GOAL_P90, GOAL_FLOORS = 0.10, 0.25, 1.5
#: Token counts of the repeated requests: one text, a few, a full batch of a slow core.
_REPEATED = [[14], [30, 44, 61, 80], [20, 25, 30, 35, 44, 44, 50, 61, 70, 80]]
_DISTINCT_REQUESTS = 256


class Plan(msgspec.Struct, frozen=True):
    """How to measure."""

    gateways: Annotated[int, option("Gateway processes")] = 2
    workers: Annotated[int, option("Worker processes, of one lane each")] = 2
    seconds: Annotated[float, option("Length of a phase")] = 5.0
    rounds: Annotated[int, option("Rounds of all phases, interleaved")] = 4
    connections: Annotated[tuple[int, ...], option("Requests at once, one phase each")] = (1, 4, 16)


class Batch(msgspec.Struct, frozen=True):
    """One `batch_done` event of a worker."""

    model: str
    items: int
    tokens: int
    ms: float
    predicted_ms: float

    @property
    def error(self) -> float:
        return abs(self.predicted_ms - self.ms) / self.ms


class Phase(msgspec.Struct, frozen=True):
    """Batches of one round with so many connections: of the traffic, and of the repeats."""

    connections: int
    traffic: list[Batch]
    repeats: list[Batch]

    def floor(self) -> list[float]:
        """How far each repeat is from the median of its likes."""
        errors: list[float] = []
        for size in {(batch.items, batch.tokens) for batch in self.repeats}:
            ms = [b.ms for b in self.repeats if (b.items, b.tokens) == size]
            middle = statistics.median(ms)
            errors += [abs(middle - one) / one for one in ms]
        return errors


class Result(report.Result, frozen=True):
    plan: Plan
    phases: list[Phase]


def measure(plan: Plan, tell: Tell) -> Result:
    """All phases in turn, round by round.

    Raises:
        BenchFailed: a request was not answered, or too few batches ran.
    """
    stack = Serving(
        [MODEL, PROBE],
        cards={PROBE: _probe_card()},
        gateways=plan.gateways,
        workers=plan.workers,
        log_level="debug",
        log_format="json",
    )
    with stack as serving, generator() as traffic, generator() as repeats:
        asked = _Asked(plan, serving, (traffic, repeats))
        while asked.batches(MODEL) < WARM_UP:
            asked.phase(max(plan.connections))
        phases = []
        for number in range(plan.rounds):
            for connections in plan.connections:
                phases.append(asked.phase(connections))
                tell(f"round {number + 1}: {connections} at once: {_told(phases[-1])}")
    return Result(report.this_machine(["torch"]), plan, phases)


def _probe_card() -> str:
    """The model's own card under another name."""
    card = Catalog.load().card(MODEL)
    return to_yaml(msgspec.structs.replace(card, name=PROBE, aliases=[]))


class _Asked:
    """A deployment under both kinds of load, each sent by a generator of its own."""

    def __init__(self, plan: Plan, serving: Serving, generators: tuple[Generator, ...]) -> None:
        self._plan, self._serving, self._generators = plan, serving, generators
        rng = random.Random(4)
        self._mixed = [encode(MODEL, _some(rng)) for _ in range(_DISTINCT_REQUESTS)]
        self._same = [encode(PROBE, [text(rng, n) for n in sizes]) for sizes in _REPEATED]
        self._seen = 0

    def batches(self, model: str) -> int:
        """How many batches of a model ran so far."""
        return sum(batch.model == model for batch in batches_of(self._serving.log()))

    def phase(self, connections: int) -> Phase:
        """Both loads at once, for the time of a phase."""
        targets, seconds = [self._serving.address], self._plan.seconds
        loads = [
            Load(targets, self._mixed, connections, seconds),
            Load(targets, self._same, 1, seconds),
        ]
        outcomes = ask_together(self._generators, loads)
        if any(outcome.errors for outcome in outcomes):
            raise BenchFailed(f"not all was answered: {[o.errors for o in outcomes]}")
        log = self._serving.log()
        new = list(batches_of(log[self._seen :]))
        self._seen = len(log)
        return Phase(
            connections,
            [batch for batch in new if batch.model == MODEL],
            [batch for batch in new if batch.model == PROBE],
        )


def _some(rng: random.Random) -> list[str]:
    """Texts of one request: mostly one or a few, now and then many; short and mixed ones."""
    length = rng.choice([short_length, mixed_length, mixed_length])
    return [text(rng, length(rng)) for _ in range(rng.choice([1, 1, 1, 2, 3, 5, 8, 16]))]


def batches_of(log: str) -> Iterator[Batch]:
    """The batches that a log in JSON tells of; other lines are passed over."""
    for line in log.splitlines():
        if '"event":"batch_done"' in line:
            yield msgspec.json.decode(line, type=Batch)


def _told(phase: Phase) -> str:
    errors, floor = sorted(b.error for b in phase.traffic), sorted(phase.floor())
    return (
        f"{len(errors)} batches, off by {percentile(errors, 0.5):.1%} (p90 "
        f"{percentile(errors, 0.9):.1%}), repeats by {percentile(floor, 0.5):.1%} "
        f"(p90 {percentile(floor, 0.9):.1%})"
    )


class Row(msgspec.Struct, frozen=True):
    """Relative errors of predictions, and the floor's, over all rounds of some phases."""

    name: str
    batches: int
    repeats: int
    tokens: float
    p50: float
    p90: float
    floor_p50: float
    floor_p90: float

    @property
    def good(self) -> bool:
        """Whether the goals are met."""
        return self.p50 <= max(GOAL_P50, GOAL_FLOORS * self.floor_p50) and (
            self.p90 <= max(GOAL_P90, GOAL_FLOORS * self.floor_p90)
        )


def rows(result: Result) -> list[Row]:
    """One row for each number of connections, and one for all."""
    by_load = [
        _row(f"{count} at once", [p for p in result.phases if p.connections == count])
        for count in result.plan.connections
    ]
    return [*by_load, _row("all", result.phases)]


def _row(name: str, phases: Sequence[Phase]) -> Row:
    traffic = [batch for phase in phases for batch in phase.traffic]
    errors = sorted(batch.error for batch in traffic)
    floor = sorted(error for phase in phases for error in phase.floor())
    return Row(
        name,
        len(errors),
        len(floor),
        statistics.fmean(batch.tokens for batch in traffic),
        percentile(errors, 0.5),
        percentile(errors, 0.9),
        percentile(floor, 0.5),
        percentile(floor, 0.9),
    )


def table(result: Result) -> str:
    """Errors in percent of the seconds that a batch took."""
    head = ["traffic", "batches", "tokens a batch", "error p50 %", "error p90 %"]
    head += ["repeats", "floor p50 %", "floor p90 %", "goal met"]
    return report.table(head, [_cells(row) for row in rows(result)])


def _cells(row: Row) -> list[object]:
    errors = [100 * row.p50, 100 * row.p90]
    floor = [100 * row.floor_p50, 100 * row.floor_p90]
    met = "yes" if row.good else "no"
    return [row.name, row.batches, row.tokens, *errors, row.repeats, *floor, met]
