import math
import random

import pytest

from shoal.core.quantiles import RunningQuantile


@pytest.mark.parametrize("quantile", [0.5, 0.9])
def test_comes_near_the_quantile_and_follows_it(quantile: float) -> None:
    rng = random.Random(1)
    running = RunningQuantile(quantile, first=1.0)
    for scale in (0.1, 2.0):
        seen = []
        for _ in range(2000):
            running.add(scale * rng.random())
            seen.append(running.value)
        assert sum(seen[-1000:]) / 1000 == pytest.approx(scale * quantile, rel=0.15)


def test_stays_a_positive_number() -> None:
    running = RunningQuantile(0.9, first=0.5)
    for x in [0.0] * 1000 + [math.nan] * 1000:
        running.add(x)
    assert 0 < running.value < 0.5
