import math

import pytest

from shoal.bench.fairness import FAKE, Large, Measured, Plan, Result, Side, measure, table
from shoal.bench.report import this_machine


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_short_run_measures_both_kinds_of_waiting() -> None:
    result = measure(Plan((FAKE,), seconds=1.5, rounds=1, texts=32), lambda _: None)
    (measured,) = result.measured
    assert measured.capacity > 20
    alone, beside = measured.alone, measured.beside
    (others_alone,), (others_beside,) = alone.others_s, beside.others_s
    assert len(others_alone) == len(others_beside) > 5
    assert alone.heavy_s == [] and len(beside.heavy_s) + beside.refused > len(others_beside)
    assert math.inf not in others_alone
    (large,) = measured.large
    assert 0 < large.hi_s < large.large_s
    assert 0.01 < large.batch_s < 0.5
    assert FAKE in table(result)


def test_the_table_compares_alone_and_beside_round_by_round() -> None:
    alone = Side([[0.01] * 99 + [0.02], [0.02] * 100])
    beside = Side([[0.01] * 98 + [0.03, 0.06], [0.02] * 100], [0.5], 2)
    large = [Large(0.01, 0.1, 9.0, 0.08), Large(0.01, 0.2, 9.0, 0.1), Large(0.01, 0.3, 9.0, 0.1)]
    result = Result(this_machine([]), Plan((FAKE,)), [Measured(FAKE, 90.0, alone, beside, large)])
    assert alone.others_ms(0.99) == pytest.approx([10, 20])
    assert beside.others_ms(0.99) == pytest.approx([30, 20])
    assert large[1].batches == pytest.approx(1.9)
    assert "2.00×" in table(result) and "1.00 to 3.00" in table(result)
    assert "100 to 300" in table(result)
