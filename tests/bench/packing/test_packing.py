from __future__ import annotations

from pathlib import Path

import pytest

from shoal.bench.packing import cycles, measure, plot


@pytest.mark.slow
def test_budgets_hold_while_models_come_and_go(tmp_path: Path) -> None:
    plan = measure.Plan(models=12, fits=4.0, rate=6.0, seconds=8.0, policies=("gdsf",))
    result = measure.measure(plan, lambda _: None)
    assert result.problems == []
    (side,) = result.sides
    assert side.most_held_bytes > 0.5 * side.budget_bytes
    assert 0 < side.hits < 1
    assert len(side.samples) > 30
    assert "gdsf" in measure.table(result)
    plot.write(tmp_path / "plot.png", result)
    assert (tmp_path / "plot.png").stat().st_size > 1000


@pytest.mark.slow
def test_cycles_of_a_real_model_leave_memory_flat() -> None:
    result = cycles.measure("all-MiniLM-L6-v2", 15)
    assert result.problems == []
    assert all(c.loaded_bytes > c.unloaded_bytes for c in result.cycles)
    assert "growth" in cycles.table(result)
