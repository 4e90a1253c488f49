"""The search of a knee, without running; and what counts of a batch at the edge of a run."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.sim import knee
from shoal.sim.meter import Meter, Outcome
from shoal.sim.rules import PULL
from tests.sim.worlds import scenario


def outcome_of(late: float) -> Outcome:
    nothing: dict[str, Any] = dict.fromkeys(Outcome.__struct_fields__, 0)
    return Outcome(**{**nothing, "late": late})


@pytest.mark.parametrize("near", [None, 0.5, 0.44, 0.6, 0.2, 0.9])
def test_a_knee_is_found_wherever_the_search_begins(
    monkeypatch: pytest.MonkeyPatch, near: float | None
) -> None:
    tried: list[float] = []

    def run(scenario_: object, rule: object, load: float, seed: int) -> Outcome:
        tried.append(load)
        return outcome_of(late=0.0 if load <= 0.5 else 0.5)

    monkeypatch.setattr(knee, "at_load", run)
    found = knee.knee_of(scenario(), PULL, 1, near)
    assert found is not None
    assert 0.5 / 1.04 <= found.load <= 0.5
    close = near is not None and 0.5 / knee.NEAR < near < 0.5 * knee.NEAR
    assert len(tried) == (
        knee.STEPS_NEAR if close else knee.STEPS + (knee.STEPS_NEAR if near else 0)
    )


def test_a_knee_above_capacity_is_found_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(scenario_: object, rule: object, load: float, seed: int) -> Outcome:
        return outcome_of(late=0.0 if load <= 1.15 else 0.5)

    monkeypatch.setattr(knee, "at_load", run)
    found = knee.knee_of(scenario(), PULL, 1)
    assert found is not None
    assert 1.15 / 1.04 <= found.load <= 1.15


def test_where_no_load_is_good_there_is_no_knee(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(knee, "at_load", lambda *_: outcome_of(late=1.0))
    assert knee.knee_of(scenario(), PULL, 1, 0.5) is None


def test_of_a_batch_at_the_edge_a_part_counts() -> None:
    meter = Meter(1.0, 2.0, goal_s=0.1)
    meter.batch(0.5, 1.5, [60, 40])
    meter.batch(1.5, 1.75, [40])
    meter.batch(1.75, 2.75, [80])
    meter.batch(2.0, 3.0, [1000])
    outcome = meter.outcome(1, 1, redelivered=0, calls=0, cpu_s=0.0)
    assert outcome.tokens == pytest.approx(50 + 40 + 20)
    assert outcome.utilisation == pytest.approx(1.0)
    assert outcome.batches == 3
