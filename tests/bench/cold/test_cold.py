from __future__ import annotations

import pytest

from shoal.bench.cold import crowd, stall
from shoal.bench.cold.asking import Answers


def test_a_rising_load_rises_evenly() -> None:
    moments = crowd.rising(10.0, 30.0, 20.0)
    assert sum(moment < 10 for moment in moments) == pytest.approx(150, abs=5)
    assert sum(moment >= 10 for moment in moments) == pytest.approx(250, abs=5)


def test_requests_under_way_between_two_moments() -> None:
    answers = Answers([0.0, 1.0, 2.0, 3.0], ["a", "a", "b", "a"], [0.5, 1.5, 1.0, 0.1], {}, 0.0)
    assert answers.of("a", 2.0, 3.0) == [1.5]
    assert answers.of("a") == [0.1, 0.5, 1.5]
    assert answers.answered == 4


@pytest.mark.slow
def test_a_crowd_costs_one_load_and_broken_files_no_storm() -> None:
    plan = crowd.Plan(crowd=60, load_s=1.0, rise_s=10.0, most=3.0, insist_s=4.0, cooldown_s=2.0)
    result = crowd.measure(plan, lambda _: None)
    assert result.problems == []
    assert result.crowd.first_s >= plan.load_s


@pytest.mark.slow
def test_a_load_does_not_stall_the_model_beside_it() -> None:
    plan = stall.Plan(lead_s=3.0, load_s=2.0)
    stalled = stall.fake(plan, lambda _: None)
    assert stalled.problems == []
    assert stalled.load_s >= plan.load_s
    assert stalled.loading > 20


@pytest.mark.slow
def test_a_real_load_does_not_stall_the_model_beside_it() -> None:
    stalled = stall.real(stall.Plan(lead_s=2.0, load_s=1.0, layers=12, hidden=768), lambda _: None)
    assert stalled.answered == stalled.requests
    assert stalled.loading_p50_s < stalled.load_s / 2
