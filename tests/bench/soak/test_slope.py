import math
import random

import pytest

from shoal.bench.soak.slope import blocks, slope


def test_a_line_is_found_and_its_error_is_that_of_its_noise() -> None:
    rng = random.Random(1)
    times = [float(n) for n in range(1200)]
    found = slope(times, [100 + 0.5 * t + rng.gauss(0, 50) for t in times])
    assert found.per_s == pytest.approx(0.5, abs=3 * found.error)
    assert 0 < found.error < 0.05


def test_noise_alone_is_no_growth() -> None:
    sure = 0
    for seed in range(100):
        rng = random.Random(seed)
        times = [float(n) for n in range(240)]
        found = slope(times, [rng.gauss(0, 1) for _ in times])
        sure += abs(found.per_s) > 2.8 * found.error
    assert sure <= 7  # two of a hundred are expected


def test_blocks_are_stretches_of_equal_time() -> None:
    times = [0.0, 1.0, 2.0, 3.0, 9.0, 10.0]
    assert blocks(times, [1, 3, 5, 5, 7, 9], 2) == [(1.5, 3.5), (9.5, 8.0)]
    assert blocks([], [], 4) == []


def test_too_few_samples_have_no_slope() -> None:
    assert math.isnan(slope([0.0, 1.0], [1.0, 2.0]).per_s)
