"""How long batches take in the topology benchmark: measured, or like those of a GPU, made slower.

The fake runtime sleeps for as long as the table says, so that many devices fit on one small machine.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from shoal.bench import cards
from shoal.runtimes.fake.timetable import Point, seconds_of
from shoal.values import BYTES_PER_TOKEN


class Timing(msgspec.Struct, frozen=True):
    """How one kind of device computes.

    Attributes:
        table: (tokens, seconds) of a batch.
        batch_s, batch_tokens: bounds of a batch.
        goal_s: the knee is the highest rate at which 99 % are answered within it.
    """

    name: str
    table: list[Point]
    batch_s: float
    batch_tokens: int
    goal_s: float

    def slower(self, factor: float) -> Timing:
        """The same device at 1/`factor` of its speed; only the names of the moments change."""
        return Timing(
            self.name,
            [(tokens, factor * seconds) for tokens, seconds in self.table],
            factor * self.batch_s,
            self.batch_tokens,
            factor * self.goal_s,
        )

    @property
    def tokens_per_s(self) -> float:
        """Of one device that only runs full batches."""
        fits = [t for t in range(64, self.batch_tokens + 1, 64) if self._s(t) <= self.batch_s]
        most = fits[-1] if fits else 64
        return most / self._s(most)

    def _s(self, tokens: int) -> float:
        return seconds_of(self.table, tokens)

    def card(self, name: str) -> str:
        """A card of the fake runtime that is timed so.

        Its inputs are texts, which the fake runtime counts in bytes.
        """
        points = [[round(tokens * BYTES_PER_TOKEN), s] for tokens, s in self.table]
        base_s = self._s(0)
        token_s = (self._s(self.batch_tokens) - base_s) / self.batch_tokens
        batch = {
            "max_batch_seconds": self.batch_s,
            "max_batch_tokens": self.batch_tokens,
            "max_batch_items": 1024,
        }
        return cards.fake(name, {"table": points}, (base_s, token_s, 1e-6), profile=batch)


#: all-MiniLM-L6-v2, bfloat16, one thread; `python -m shoal.bench timetable`, 2026-11-29, on a core
#: of an AMD EPYC (Zen 4, AVX-512), torch 2.13.
CPU = Timing(
    "MiniLM on a CPU core",
    [
        (8, 0.0039),
        (16, 0.0041),
        (32, 0.0060),
        (64, 0.0102),
        (128, 0.0185),
        (256, 0.0358),
        (512, 0.0716),
        (1024, 0.1407),
        (2048, 0.2980),
    ],
    batch_s=0.1,
    batch_tokens=8192,
    goal_s=1.0,
)
#: The shape of a small encoder on a GPU, 3 ms and 2 µs a token, as in many published measurements:
#: what a batch costs hardly depends on how full it is.
GPU = Timing("like a GPU", [(0, 0.003), (4096, 0.0112)], 0.02, 4096, goal_s=0.075)

TIMINGS: dict[Literal["gpu", "cpu"], Timing] = {"gpu": GPU, "cpu": CPU}
