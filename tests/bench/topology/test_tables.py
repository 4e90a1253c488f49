import numpy as np
import pytest

from shoal.bench.topology.tables import CPU, GPU, Timing
from shoal.catalog.parse import parse_card
from shoal.runtimes.fake.options import options_of
from shoal.runtimes.fake.timetable import fault, seconds_of
from shoal.wire.socket import Load


@pytest.mark.parametrize("timing", [CPU, GPU])
def test_shipped_tables_are_tables(timing: Timing) -> None:
    assert fault(timing.table) is None
    assert seconds_of(timing.table, 1) < timing.batch_s < timing.goal_s


def test_full_batches_decide_what_a_device_can_do() -> None:
    timing = Timing("x", [(0, 0.01), (1000, 0.02)], batch_s=0.015, batch_tokens=8192, goal_s=1.0)
    assert timing.tokens_per_s == pytest.approx(500 / 0.015, rel=0.1)
    assert timing.slower(10).tokens_per_s == pytest.approx(timing.tokens_per_s / 10)
    assert timing.slower(10).goal_s == 10


@pytest.mark.parametrize("timing", [CPU, GPU.slower(20)])
def test_a_card_times_the_fake_runtime_by_the_table(timing: Timing) -> None:
    card = parse_card(timing.card("m0"), "m0.yaml")
    profile = card.profile("cpu")
    options = options_of(Load("m0", "", "fake", {}, "auto", 512, profile.options))
    for tokens in (16, 300, 2000):
        in_bytes = np.array([4 * tokens])
        assert options.cost_s(in_bytes) == pytest.approx(seconds_of(timing.table, tokens))
    assert profile.cost.base_s == pytest.approx(seconds_of(timing.table, 0))
    assert profile.max_batch_seconds == timing.batch_s
