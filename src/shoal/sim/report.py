"""Rows of the comparison, made of results: what tables, JSON and pictures show."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import msgspec

from shoal.sim.meter import Outcome
from shoal.sim.table import Evicted, Result


class Row(msgspec.Struct, frozen=True):
    """One rule in one scenario: medians over seeds, of the knee unless it says else.

    Attributes:
        tokens, least_tokens, most_tokens: computed a second.
        gain: tokens a second of pulling over this one's, seed by seed; `least_gain`, `most_gain`:
            over the seeds. None for pulling itself, infinite where this one has no knee.
        half_p50_s, half_p99_s: latency at half of round robin's knee.
    """

    workload: str
    device: str
    workers: int
    rule: str
    tokens: float
    least_tokens: float
    most_tokens: float
    gain: float | None
    least_gain: float | None
    most_gain: float | None
    utilisation: float
    batch_tokens: float
    padding: float
    half_p50_s: float | None
    half_p99_s: float | None


def rows_of(results: Sequence[Result]) -> list[Row]:
    """All rows, in the order of scenarios and, within one, of `results`."""
    pull = {_place(r): r.tokens() for r in results if r.cell.rule == "pull"}
    order = {place: number for number, place in enumerate(dict.fromkeys(map(_place, results)))}
    rows = [_row(result, pull.get(_place(result))) for result in results]
    return sorted(rows, key=lambda row: order[row.workload, row.device, row.workers])


def _place(result: Result) -> tuple[str, str, int]:
    cell = result.cell
    return cell.workload, cell.device, cell.workers


def _row(result: Result, pull: list[float] | None) -> Row:
    cell, tokens, at_knee = result.cell, result.tokens(), result.outcomes()
    gains: list[float] = []
    if pull is not None and cell.rule != "pull":
        gains = [p / t if t else float("inf") for p, t in zip(pull, tokens, strict=True)]
    return Row(
        cell.workload,
        cell.device,
        cell.workers,
        cell.rule,
        median(tokens),
        min(tokens),
        max(tokens),
        median(gains) if gains else None,
        min(gains, default=None),
        max(gains, default=None),
        _median(at_knee, "utilisation"),
        _median(at_knee, "batch_tokens"),
        _median(at_knee, "padding"),
        _median(result.half, "p50_s") if result.half else None,
        _median(result.half, "p99_s") if result.half else None,
    )


def _median(outcomes: Sequence[Outcome], field: str) -> float:
    return float(median([getattr(outcome, field) for outcome in outcomes] or [0.0]))


HEAD = (
    "workload",
    "device",
    "workers",
    "rule",
    "tokens/s at the knee",
    "pull over it",
    "utilisation",
    "tokens a batch",
    "padding",
    "p50 ms",
    "p99 ms",
)


def cells_of(row: Row) -> list[object]:
    """One line of the table; latencies at half of round robin's knee."""
    gain = "–" if row.gain is None else _ranged(row.gain, row.least_gain, row.most_gain)
    return [
        row.workload,
        row.device,
        row.workers,
        row.rule,
        f"{row.tokens:,.0f}",
        gain,
        f"{row.utilisation:.2f}",
        f"{row.batch_tokens:,.0f}",
        f"{row.padding:.2f}",
        _ms(row.half_p50_s),
        _ms(row.half_p99_s),
    ]


def _ranged(middle: float, least: float | None, most: float | None) -> str:
    return f"{middle:.2f} ({least:.2f}–{most:.2f})"


def _ms(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds * 1000:.0f}"


EVICTION_HEAD = (
    "eviction",
    "workers",
    "hits",
    "loads",
    "evictions",
    "p50 ms",
    "p99 ms",
    "utilisation",
)


def eviction_cells(evicted: Evicted) -> list[object]:
    """One line of the table of evictions: medians over seeds."""
    outcomes = evicted.outcomes
    return [
        evicted.cell.way,
        evicted.cell.workers,
        f"{_median(outcomes, 'hits'):.3f}",
        f"{_median(outcomes, 'loads'):.0f}",
        f"{_median(outcomes, 'evictions'):.0f}",
        _ms(_median(outcomes, "p50_s")),
        _ms(_median(outcomes, "p99_s")),
        f"{_median(outcomes, 'utilisation'):.2f}",
    ]
