"""What comparisons came to, which of them are wrong, and how they are shown."""

from __future__ import annotations

import msgspec

from shoal.bench import report


class Row(msgspec.Struct, frozen=True):
    """One comparison.

    Attributes:
        measure: what is compared; `ours` and `theirs` are numbers of that.
        difference: how far apart both are; at most `bound` is right.
        scores: how far apart any two scores are that the measure is of; None: there are none, or both
            sides scored other things.
    """

    measure: str
    model: str
    texts: str
    ours: float
    theirs: float
    difference: float
    bound: float
    scores: float | None = None

    @property
    def met(self) -> bool:
        return self.difference <= self.bound


class Result(report.Result, frozen=True):
    rows: list[Row]

    @property
    def problems(self) -> list[str]:
        return [
            f"{row.measure} of {row.model} on {row.texts} differs by {row.difference:.4f}, "
            f"more than {row.bound}"
            for row in self.rows
            if not row.met
        ]


def table(result: Result) -> str:
    """One row a comparison; of receipts, the reference is what was drawn."""
    head = ["measure", "model", "on", "Shoal", "reference", "apart", "at most", "", "scores apart"]
    return report.table(head, [_cells(row) for row in result.rows])


def _cells(row: Row) -> list[object]:
    numbers = (row.ours, row.theirs, row.difference)
    exact = all(float(number).is_integer() for number in numbers)
    shown = [f"{number:.0f}" if exact else f"{number:.4f}" for number in numbers]
    scores = "" if row.scores is None else f"{row.scores:.1g}"
    return [row.measure, row.model, row.texts, *shown, f"{row.bound:g}", _met(row), scores]


def _met(row: Row) -> str:
    return "met" if row.met else "MISSED"
