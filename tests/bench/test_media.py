"""The benchmark of large items, small: real processes, every answer checked."""

from __future__ import annotations

import pytest

from shoal.bench import media


@pytest.mark.timeout(180)
def test_large_items_are_answered_rightly_and_leave_nothing_behind() -> None:
    plan = media.Plan(6, 3_000_000, 1, 5_400_000, rounds=2, idle_s=0.5)
    result = media.measure(plan, lambda line: None)
    assert [round_.answered for round_ in result.rounds] == [7, 7], result.rounds
    assert result.problems == []
    assert result.idle.probes == 50
    assert all(round_.health.probes >= 100 for round_ in result.rounds)
    assert result.together.probes == sum(round_.health.probes for round_ in result.rounds)
    assert result.together.most_ms == max(round_.health.most_ms for round_ in result.rounds)
    table = media.table(result)
    assert "in flight, round 2" in table and "in flight, all rounds" in table
    assert "0 left in the payload store" in table


def test_probes_without_an_answer_count_with_the_slowest() -> None:
    health = media.health([0.001] * 98 + [0.002, float("inf")])
    assert health.lost == 1
    assert health.p50_ms == pytest.approx(1.0)
    assert health.most_ms == float("inf")
