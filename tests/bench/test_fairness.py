import math

import pytest

from shoal.bench.fairness import FAKE, Measured, Plan, Result, Side, measure, table
from shoal.bench.large import Large, Word, waited_s
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
    assert all(0 < word.waited_s < word.seconds for word in large.words)
    assert large.words[0].seconds < large.large_s
    assert 0.01 < large.batch_s < 0.5
    assert FAKE in table(result)


def test_the_table_compares_alone_and_beside_round_by_round() -> None:
    alone = Side([[0.01] * 99 + [0.02], [0.02] * 100])
    beside = Side([[0.01] * 98 + [0.03, 0.06], [0.02] * 100], [0.5], 2)
    large = [
        Large(0.01, [Word(first_s, first_s - 0.09), Word(0.4, 0.25)], 9.0, 0.1)
        for first_s in (0.1, 0.2, 0.3)
    ]
    result = Result(this_machine([]), Plan((FAKE,)), [Measured(FAKE, 90.0, alone, beside, large)])
    assert alone.others_ms(0.99) == pytest.approx([10, 20])
    assert beside.others_ms(0.99) == pytest.approx([30, 20])
    assert large[1].batches == pytest.approx([1.1, 2.5])
    assert "2.00×" in table(result) and "1.00 to 3.00" in table(result)
    assert "100 to 300" in table(result)


def test_what_went_by_before_a_batch_is_read_from_server_timing() -> None:
    header = "queue;dur=30.00, prepare;dur=1.50, wait;dur=0.50, compute;dur=84.00, total;dur=117.00"
    assert waited_s(header) == pytest.approx(0.032)
