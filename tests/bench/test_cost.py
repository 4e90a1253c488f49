import pytest

from shoal.bench.cost import (
    MODEL,
    PROBE,
    Batch,
    Phase,
    Plan,
    Result,
    Row,
    batches_of,
    measure,
    rows,
)
from shoal.bench.report import this_machine


def batch(ms: float, predicted_ms: float = 10.0, tokens: int = 14, model: str = PROBE) -> Batch:
    return Batch(model, 1, tokens, ms, predicted_ms)


def test_batches_are_found_in_a_log_of_other_lines() -> None:
    log = (
        "not JSON at all\n"
        '{"event":"batch_done","model":"m","items":2,"tokens":30,"ms":5.0,"predicted_ms":4.0}\n'
        '{"event":"loaded","model":"m"}\n'
    )
    (found,) = batches_of(log)
    assert found == Batch("m", 2, 30, 5.0, 4.0)
    assert found.error == pytest.approx(0.2)


def test_the_floor_is_what_repeats_of_one_size_differ_by() -> None:
    repeats = [batch(8.0), batch(10.0), batch(12.5), batch(100.0, tokens=50)]
    assert sorted(Phase(1, [], repeats).floor()) == pytest.approx([0.0, 0.0, 0.2, 0.25])


def test_rows_take_all_rounds_of_a_load_together() -> None:
    phases = [
        Phase(1, [batch(10.0, 11.0, model=MODEL)], [batch(10.0)]),
        Phase(4, [batch(10.0, 15.0, model=MODEL)] * 9, [batch(10.0)]),
        Phase(1, [batch(10.0, 9.0, model=MODEL)], [batch(10.0)]),
    ]
    result = Result(this_machine([]), Plan(connections=(1, 4)), phases)
    one, four, every = rows(result)
    assert (one.batches, four.batches, every.batches) == (2, 9, 11)
    assert one.p50 == pytest.approx(0.1) and every.p50 == pytest.approx(0.5)
    assert one.good and not every.good


@pytest.mark.parametrize(
    ("p50", "p90", "floor_p50", "floor_p90", "good"),
    [
        (0.09, 0.24, 0.0, 0.0, True),
        (0.11, 0.2, 0.05, 0.5, False),
        (0.11, 0.2, 0.08, 0.1, True),
        (0.09, 0.4, 0.0, 0.3, True),
        (0.09, 0.4, 0.0, 0.2, False),
    ],
)
def test_goals(p50: float, p90: float, floor_p50: float, floor_p90: float, good: bool) -> None:
    assert Row("x", 1, 1, 10.0, p50, p90, floor_p50, floor_p90).good is good


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_short_run_sees_batches_and_repeats() -> None:
    plan = Plan(gateways=1, workers=1, seconds=1.0, rounds=1, connections=(2,))
    (phase,) = measure(plan, lambda _: None).phases
    assert phase.traffic and phase.repeats
    assert {b.model for b in phase.traffic} == {MODEL}
    assert max(b.error for b in phase.traffic) < 50
