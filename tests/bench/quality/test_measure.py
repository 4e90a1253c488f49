"""What is shown of comparisons, and which of them are wrong."""

from __future__ import annotations

import pytest

from shoal.bench import report
from shoal.bench.quality import measure
from shoal.bench.quality.measure import Plan, Result, Row


def row(difference: float, bound: float = 0.002) -> Row:
    return Row(
        "nDCG@10, dense", "m", "9 sections, en", 0.7351, 0.7351 - difference, difference, bound
    )


def result(*rows: Row) -> Result:
    return Result(report.this_machine([]), Plan(), [*rows])


def test_what_is_within_its_bound_is_met() -> None:
    same = result(row(0.0), row(0.0019), row(0.0, bound=0))
    assert same.problems == []
    assert "MISSED" not in measure.table(same)


@pytest.mark.parametrize("difference", [0.0021, float("nan")])
def test_what_is_not_is_a_problem(difference: float) -> None:
    missed = result(row(0.0), row(difference))
    (problem,) = missed.problems
    assert "nDCG@10, dense of m on 9 sections, en" in problem
    lines = measure.table(missed).splitlines()
    assert lines[2].endswith("| met    |")
    assert lines[3].endswith("| MISSED |")


def test_counts_are_shown_as_such() -> None:
    shown = measure.table(result(Row("entities", "m", "8 sentences", 28, 30, 2, 0)))
    assert "| 28    | 30        | 2     | 0" in shown
