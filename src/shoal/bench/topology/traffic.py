"""The traffic of the topology benchmark: which models are asked, when, and for what texts.

Pure and seeded: every topology gets the very same requests at the very same moments.
"""

from __future__ import annotations

import itertools
import random
from typing import Literal

import msgspec

from shoal.bench.load import Arrivals, Target, encode
from shoal.bench.texts import mixed_length, text

#: Items of a request: most callers send one text or a few.
_ITEMS = (1, 1, 1, 2, 2, 3, 5)
#: Requests of a burst, on average, and the time within which all of one come.
BURST, BURST_S = 8, 0.02
#: Distinct requests of a model; more would only take memory.
_DISTINCT = 32
_SEED = 11


class Traffic(msgspec.Struct, frozen=True):
    """One kind of traffic. `models`: how many share it, by Zipf's law with exponent 1."""

    models: int
    arrivals: Literal["steady", "bursty"] = "steady"

    @property
    def name(self) -> str:
        return f"{self.models} model{'s' if self.models > 1 else ''}, {self.arrivals}"

    def names(self) -> list[str]:
        """Models, the most asked one first."""
        return [model_name(number) for number in range(self.models)]

    def moments(self, rate: float, seconds: float) -> list[tuple[float, int]]:
        """(when, which model) of every request: Poisson, single ones or bursts for one model."""
        rng = random.Random(_SEED)
        shares = [1 / (rank + 1) for rank in range(self.models)]
        size = BURST if self.arrivals == "bursty" else 1
        found: list[tuple[float, int]] = []
        now = rng.expovariate(rate / size)
        while now < seconds:
            (model,) = rng.choices(range(self.models), shares)
            count = _geometric(rng, size)
            found += [(now + rng.uniform(0, BURST_S) * (size > 1), model) for _ in range(count)]
            now += rng.expovariate(rate / size)
        return sorted(found)


def model_name(number: int) -> str:
    """Its name in the catalog and in paths."""
    return f"m{number}"


def _geometric(rng: random.Random, mean: int) -> int:
    """At least one, `mean` on average."""
    return next(n for n in itertools.count(1) if rng.random() * mean < 1)


class Requests:
    """The distinct requests of all models, and how many texts' tokens are in them on average."""

    def __init__(self, models: list[str]) -> None:
        rng = random.Random(_SEED)
        self._bytes: list[bytes] = []
        tokens = 0
        for model in models:
            for _ in range(_DISTINCT):
                lengths = [mixed_length(rng) for _ in range(rng.choice(_ITEMS))]
                tokens += sum(lengths)
                self._bytes.append(encode(model, [text(rng, n) for n in lengths]))
        self.tokens = tokens / len(self._bytes)

    def arrivals(
        self,
        moments: list[tuple[float, int]],
        targets: list[Target],
        patience_s: float,
    ) -> Arrivals:
        """What the generator is told to send."""
        which = [model * _DISTINCT + n % _DISTINCT for n, (_, model) in enumerate(moments)]
        return Arrivals(targets, self._bytes, [when for when, _ in moments], which, patience_s)
