import math

import pytest

from shoal.bench.knee import MOST_TRIES, RESOLUTION, knee


@pytest.mark.parametrize("true", [3.0, 90.0, 100.0, 101.0, 4000.0])
def test_finds_the_highest_rate_that_meets_the_goal(true: float) -> None:
    tries: list[float] = []

    def meets(rate: float) -> bool:
        tries.append(rate)
        return rate <= true

    found = knee(meets, 100.0)
    assert true / RESOLUTION <= found <= true
    assert len(tries) <= MOST_TRIES


def test_a_narrow_stride_near_the_knee_needs_few_tries() -> None:
    tries: list[float] = []

    def meets(rate: float) -> bool:
        tries.append(rate)
        return rate <= 104.0

    assert knee(meets, 100.0, stride=1.1) >= 100.0
    assert len(tries) <= 3


def test_goals_that_are_never_or_always_met_end_the_search() -> None:
    assert knee(lambda rate: False, 100.0) == 0.0
    assert 100.0 < knee(lambda rate: True, 100.0) < math.inf
    assert knee(lambda rate: True, 100.0, tries=1) == 100.0
