"""What is shown of comparisons, and which of them are wrong."""

from __future__ import annotations

import pytest

from shoal.bench import report
from shoal.bench.quality import results
from shoal.bench.quality.results import Result, Row


def row(difference: float, bound: float = 0.002) -> Row:
    return Row(
        "nDCG@10, dense", "m", "9 sections, en", 0.7351, 0.7351 - difference, difference, bound
    )


def result(*rows: Row) -> Result:
    return Result(report.this_machine([]), [*rows])


def test_what_is_within_its_bound_is_met() -> None:
    same = result(row(0.0), row(0.0019), row(0.0, bound=0))
    assert same.problems == []
    assert "MISSED" not in results.table(same)


@pytest.mark.parametrize("difference", [0.0021, float("nan")])
def test_what_is_not_is_a_problem(difference: float) -> None:
    missed = result(row(0.0), row(difference))
    (problem,) = missed.problems
    assert "nDCG@10, dense of m on 9 sections, en" in problem
    lines = results.table(missed).splitlines()
    assert "| met    |" in lines[2]
    assert "| MISSED |" in lines[3]


def test_counts_are_shown_as_such() -> None:
    shown = results.table(result(Row("entities", "m", "8 sentences", 28, 30, 2, 0)))
    assert "| 28    | 30        | 2     | 0" in shown


def test_scores_are_shown_where_both_sides_have_them() -> None:
    exact = Row("nDCG@10, dense", "m", "9 sections, en", 0.7, 0.7, 0.0, 0.002, scores=2.5e-7)
    lines = results.table(result(exact, row(0.0))).splitlines()
    assert lines[2].endswith("| met | 2e-07        |")
    assert lines[3].endswith("| met |              |")


def test_a_measure_of_nothing_is_shown_as_such() -> None:
    nothing = float("nan")
    shown = results.table(result(Row("nDCG@10", "m", "0 sections", nothing, 0.0, nothing, 0.002)))
    assert "| nan   | 0.0000    | nan   | 0.002   | MISSED |" in shown
