"""The benchmark of large items, small: real processes, every answer checked."""

from __future__ import annotations

import pytest

from shoal.bench import media


@pytest.mark.timeout(180)
def test_large_items_are_answered_rightly_and_leave_nothing_behind() -> None:
    plan = media.Plan(images=6, image_bytes=3_000_000, texts=1, text_bytes=5_400_000, idle_s=0.5)
    result = media.measure(plan, lambda line: None)
    assert result.outcome.answered == 7, result.outcome.errors
    assert result.problems == []
    assert result.idle.probes == 50
    assert result.busy.probes >= 100
    table = media.table(result)
    assert "7 answered" in table
    assert "0 wrong" in table


def test_probes_without_an_answer_count_with_the_slowest() -> None:
    health = media.health([0.001] * 98 + [0.002, float("inf")])
    assert health.lost == 1
    assert health.p50_ms == pytest.approx(1.0)
    assert health.most_ms == float("inf")
