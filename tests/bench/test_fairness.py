import math

import pytest

from shoal.bench.fairness import FAKE, Large, Measured, Plan, Result, Side, measure, table
from shoal.bench.report import this_machine


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_short_run_measures_both_kinds_of_waiting() -> None:
    result = measure(Plan([FAKE], seconds=1.5, rounds=1, texts=32), lambda _: None)
    (measured,) = result.measured
    assert measured.capacity > 20
    alone, beside = measured.alone, measured.beside
    assert len(alone.others_s) == len(beside.others_s) > 5
    assert alone.heavy_s == [] and len(beside.heavy_s) + beside.refused > len(beside.others_s)
    assert math.inf not in alone.others_s
    (large,) = measured.large
    assert 0 < large.hi_s < large.large_s
    assert 0.01 < large.batch_s < 0.5
    assert FAKE in table(result)


def test_the_table_compares_alone_and_beside() -> None:
    alone, beside = Side([0.01] * 99 + [0.02]), Side([0.01] * 98 + [0.03, 0.06], [0.5], 2)
    measured = Measured("m", 90.0, alone, beside, [Large(0.01, 0.1, 9.0, 0.08)])
    result = Result(this_machine([]), Plan(["m"]), [measured])
    assert alone.p99_ms == pytest.approx(10)
    assert beside.p99_ms == pytest.approx(30)
    assert "3.00×" in table(result)
