"""How fast units come to a queue, by what is found in it."""

import math

import pytest

from shoal.core.inflow import LEAST_S, Inflow


def test_nothing_is_known_before_the_second_look() -> None:
    inflow = Inflow()
    inflow.saw(100, math.inf)
    assert inflow.rate == 0.0


def test_the_mean_is_over_the_time_however_long_each_look_is_apart() -> None:
    inflow = Inflow()
    for _ in range(50):
        inflow.saw(10, 0.1)
        inflow.saw(2, 0.02)
    assert inflow.rate == pytest.approx(100.0)


def test_what_was_long_ago_hardly_counts() -> None:
    inflow = Inflow()
    for _ in range(50):
        inflow.saw(100, 0.1)
    inflow.saw(0, 10.0)
    assert inflow.rate < 1e-6
    inflow.saw(0, 1e9)
    assert inflow.rate == 0.0


def test_no_look_makes_it_negative_or_no_number() -> None:
    inflow = Inflow()
    for units, seconds in ((5, 0.1), (-400, 0.1), (9, -1.0), (9, 0.0), (9, LEAST_S / 2)):
        inflow.saw(units, seconds)
    assert inflow.rate == pytest.approx(5 * math.exp(-1 / 3) / (0.1 * math.exp(-1 / 3) + 0.1))
