from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from shoal.bench import report
from shoal.bench.packing import cycles, measure, plot
from tests.runtimes.torch import made


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
    result = cycles.measure(cycles.Plan(count=15), lambda _: None)
    assert result.problems == []
    assert all(c.loaded_bytes > c.unloaded_bytes for c in result.cycles)
    assert "growth" in cycles.table(result)


@pytest.mark.slow
def test_cycles_of_models_of_different_size_leave_memory_flat(tmp_path: Path) -> None:
    loads = []
    for hidden in (128, 256, 512):
        folder = tmp_path / str(hidden)
        made.save_bert(folder, hidden_size=hidden, intermediate_size=4 * hidden, vocab_size=8000)
        loads.append(made.load(folder, model=f"bert-{hidden}"))
    empty, seen = asyncio.run(cycles.run("torch", [loads[n % 3] for n in range(45)]))
    # A window of one model's cycles: the growth of what is left does not hide in its neighbours.
    for load in loads:
        own = [cycle for cycle in seen if cycle.model == load.model]
        result = cycles.Result(report.this_machine([]), load.model, empty, own)
        assert result.growth_bytes < max(cycle.said_bytes for cycle in seen) / 10, load.model


def test_growth_is_a_problem() -> None:
    flat = [cycles.Cycle("m", 100, 300, 200, 0.1)] * 20
    result = cycles.Result(report.this_machine([]), "m", 100, flat)
    assert result.problems == []
    leaking = [msgspec.structs.replace(c, unloaded_bytes=200 + 2 * n) for n, c in enumerate(flat)]
    (problem,) = msgspec.structs.replace(result, cycles=leaking).problems
    assert "more are held" in problem
