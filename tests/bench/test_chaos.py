"""Faults on real processes, one of each common kind; `make chaos` does all of them for longer."""

import pytest

from shoal.bench import chaos
from shoal.bench.failure import BenchFailed


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_everything_is_answered_once_and_rightly_whatever_dies() -> None:
    told: list[str] = []
    try:
        result = chaos.measure(chaos.quick(chaos.Plan()), told.append)
    except BenchFailed as error:
        pytest.fail("\n".join([*told, error.message]))
    by_phase = {outcome.phase: outcome for outcome in result.outcomes}
    assert all(outcome.good for outcome in result.outcomes)
    assert sum(outcome.evicted for outcome in result.outcomes) > 0
    assert by_phase["kill worker"].redelivered > 0
    assert (by_phase["poison"].tally.dead, result.letters) == (1, 1)
    table = chaos.table(result.outcomes)
    assert all(name in table for name in ("kill broker", "bulk", "large items", "packed models"))


def test_an_unknown_phase_is_told_with_those_there_are() -> None:
    with pytest.raises(BenchFailed, match="kill worker"):
        chaos.measure(chaos.Plan(only=["kill all"]), print)
