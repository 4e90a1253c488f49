"""The benchmark on real processes, as short as it can be."""

import msgspec
import pytest

from shoal.bench.topology.measure import POWER_OF_TWO, PULL, ROUND_ROBIN, measure
from shoal.bench.topology.results import Plan, Scenario
from shoal.bench.topology.tables import GPU
from shoal.bench.topology.traffic import Traffic


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_topology_answers_the_same_traffic() -> None:
    # A wide goal: this is about the processes, not their speed.
    timing = msgspec.structs.replace(GPU.slower(10), goal_s=0.6)
    scenario = Scenario(timing, [Traffic(3)], workers=2)
    heard: list[str] = []
    result = measure(Plan([scenario], seconds=0.5, rounds=1, tries=1), heard.append)
    (compared,) = result.compared
    assert [one.topology for one in compared.measured] == [PULL, ROUND_ROBIN, POWER_OF_TWO]
    for one in compared.measured:
        answered = sum(t.answered for t in one.tries)
        assert answered > 20
        assert all(t.busy > 0 and t.batch_tokens > 5 and 0 < t.machine <= 1 for t in one.tries)
        assert sum(t.errors.get("429", 0) + t.errors.get("503", 0) for t in one.tries) == 0
    assert len(heard) == 4
