"""What is measured of one world, and the figures made of it. Decides nothing."""

from __future__ import annotations

from collections import Counter

import msgspec
import numpy as np


class Outcome(msgspec.Struct, frozen=True):
    """Figures of one run; times in seconds, rates a second.

    Attributes:
        offered: requests a second that came while it was measured.
        late: share of them not answered within the goal; unanswered and refused ones are late.
        tokens: computed a second; `utilisation`: share of lane time spent computing.
        batch_tokens: mean tokens of a batch. `padding`: share of a batch's area that would be
            padding if every item were padded to the longest.
        loads, evictions, redelivered, refused: counts over the whole run.
        hits: share of requests whose model was resident somewhere when they came.
        peak_held: most units one worker held.
        told: messages a second that a worker heard of others' pulls.
        calls: events of the virtual clock, `cpu_s`: seconds of one core it took to simulate.
    """

    offered: float
    answered: int
    late: float
    p50_s: float
    p99_s: float
    tokens: float
    utilisation: float
    batch_tokens: float
    padding: float
    batches: int
    loads: int
    evictions: int
    hits: float
    redelivered: int
    refused: dict[str, int]
    mean_in_system: float
    mean_latency_s: float
    peak_held: int
    told: float
    calls: int
    cpu_s: float


class Meter:
    """Counts what happens between `start` and `end`: requests by their arrival, work by its time."""

    def __init__(self, start: float, end: float, goal_s: float) -> None:
        self.start = start
        self.end = end
        self.goal_s = goal_s
        self.came = 0
        self.hit = 0
        self.answered = 0
        self.late = 0
        self.loads = 0
        self.evictions = 0
        self.peak_held = 0
        self._told = 0
        self.refused: Counter[str] = Counter()
        self._latencies: list[float] = []
        self._busy_s = 0.0
        self._tokens_inside = 0.0
        self._tokens = 0
        self._items = 0
        self._area = 0
        self._batches = 0
        self._in_system_s = 0.0

    def arrived(self, at: float, *, resident: bool) -> None:
        """A request came."""
        if self.start <= at < self.end:
            self.came += 1
            self.hit += resident

    def done(self, at: float, now: float) -> None:
        """The request that came at `at` has its whole answer."""
        self.answered += 1
        self._in_system_s += max(0.0, min(now, self.end) - max(at, self.start))
        if self.start <= at < self.end:
            self._latencies.append(now - at)
            self.late += now - at > self.goal_s

    def fail(self, at: float, code: str) -> None:
        """It was refused, or failed."""
        self.refused[code] += 1
        self.late += self.start <= at < self.end

    def batch(self, begin: float, end: float, lengths: list[int]) -> None:
        """A lane computed one batch; of one at the edge of the time that counts, a part of it does."""
        inside_s = min(end, self.end) - max(begin, self.start)
        if inside_s <= 0:
            return
        tokens = sum(lengths)
        self._busy_s += inside_s
        self._tokens_inside += tokens * inside_s / (end - begin)
        self._batches += 1
        self._tokens += tokens
        self._items += len(lengths)
        self._area += len(lengths) * max(lengths)

    def told(self, now: float, hearers: int) -> None:
        """So many workers were told of a pull."""
        if self.start <= now < self.end:
            self._told += hearers

    def hopeless(self, expected: float) -> bool:
        """Whether so many are late that the 99th percentile is lost, whatever comes."""
        return self.late > 0.02 * expected

    def outcome(
        self, workers: int, lanes: int, redelivered: int, calls: int, cpu_s: float
    ) -> Outcome:
        """The figures; requests without an answer by now are late."""
        span_s = self.end - self.start
        refused = sum(self.refused.values())
        unanswered = max(0, self.came - len(self._latencies) - refused)
        latencies = np.array(self._latencies + [np.inf] * unanswered)
        some = len(latencies) > 0
        p50, p99 = np.quantile(latencies, [0.5, 0.99], method="lower") if some else (0.0, 0.0)
        return Outcome(
            offered=self.came / span_s,
            answered=self.answered,
            late=(self.late + unanswered) / max(1, self.came),
            p50_s=float(p50),
            p99_s=float(p99),
            tokens=self._tokens_inside / span_s,
            utilisation=self._busy_s / (lanes * span_s),
            batch_tokens=self._tokens / max(1, self._batches),
            padding=1.0 - self._tokens / max(1, self._area),
            batches=self._batches,
            loads=self.loads,
            evictions=self.evictions,
            hits=self.hit / max(1, self.came),
            redelivered=redelivered,
            refused=dict(self.refused),
            mean_in_system=self._in_system_s / span_s,
            mean_latency_s=float(np.mean(self._latencies)) if self._latencies else 0.0,
            peak_held=self.peak_held,
            told=self._told / (workers * span_s),
            calls=calls,
            cpu_s=cpu_s,
        )
