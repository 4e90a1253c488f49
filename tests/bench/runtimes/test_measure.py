from __future__ import annotations

import pytest

from shoal.bench.runtimes.measure import Plan, measure, table
from shoal.runtimes.packages import missing


def test_two_kinds_of_one_model() -> None:
    if (lacking := missing("candle")) is not None:
        pytest.skip(lacking)
    plan = Plan(kinds=("torch", "candle"), starts=1, rounds=1, texts=4)
    told: list[str] = []
    result = measure(plan, told.append)
    torch, candle = result.measured
    assert (torch.name, candle.name) == plan.kinds
    assert torch.installed.own_bytes == candle.installed.own_bytes
    assert 10e6 < candle.installed.added_bytes < torch.installed.added_bytes / 10
    (start,) = candle.starts
    assert 0 < start.hello_s < start.loaded_s < start.first_s < torch.starts[0].first_s
    assert 0 < candle.rounds.rss_bytes < torch.rounds.rss_bytes
    assert all(len(seconds) == 1 for seconds in candle.rounds.seconds.values())
    assert 0.99999 < candle.rounds.cosine <= torch.rounds.cosine + 1e-6
    assert all(cpu_s > 0 for spent in candle.rounds.cpu_s.values() for cpu_s in spent)
    told_ = table(result)
    assert "| candle |" in told_
    assert "| CPU ms/text | equal | mixed | short |" in told_
    assert len(told) == 2 * 2 + 3 * 2 * 2  # a start and a round of each kind to warm up
