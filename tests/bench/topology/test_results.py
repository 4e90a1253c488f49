import math

import pytest

from shoal.bench.report import this_machine
from shoal.bench.topology.plans import QUICK, Options, plan
from shoal.bench.topology.results import Compared, Measured, Result, Scenario, Try, table
from shoal.bench.topology.tables import GPU
from shoal.bench.topology.traffic import Traffic


def tried(rate: float, p99_s: float = 0.5, tokens: float = 100.0) -> Try:
    return Try(rate, 10, 10, 0.1, p99_s, 0.3, 0.4, 0.9, tokens, 0.0, {})


def test_knees_are_medians_and_shown_with_what_was_seen_there() -> None:
    pull = Measured("pull", [tried(90), tried(120, math.inf), tried(100)], [90, 100], [tried(45)])
    push = Measured("round-robin", [tried(50, tokens=20.0)], [50, 0.0], [tried(45)])
    assert pull.knee == 95
    assert [t.rate for t in pull.at_knee()] == [90, 100]
    assert [t.rate for t in push.at_knee()] == [50]
    scenario = Scenario(GPU, [Traffic(2)], workers=4, lanes=2)
    compared = Compared(scenario, Traffic(2), 160.0, [pull, push])
    shown = table(Result(this_machine([]), plan(Options(("gpu",))), [compared]))
    assert "8 × like a GPU" in shown and "3.80×" in shown and "90 to 100" in shown


def test_a_topology_without_any_knee_is_shown_as_such() -> None:
    one = Measured("pull", [tried(10, math.inf)], [0.0])
    scenario = Scenario(GPU, [Traffic(1)], workers=1)
    compared = Compared(scenario, Traffic(1), 160.0, [one])
    assert "| -" in table(Result(this_machine([]), plan(Options(("gpu",))), [compared]))


def test_what_is_asked_for_is_planned() -> None:
    full = plan(Options(("gpu", "cpu", "real"), workers=6))
    assert [scenario.timing.name for scenario in full.scenarios] == [
        "like a GPU",
        "MiniLM on a CPU core",
        "real MiniLM",
    ]
    assert full.scenarios[0].timing.goal_s == pytest.approx(15 * GPU.goal_s)
    assert len(full.scenarios[0].models) == 20
    assert full.scenarios[2].models == ["all-MiniLM-L6-v2"]
    assert full.scenarios[0].capacity(160.0) == pytest.approx(
        6 * full.scenarios[0].timing.tokens_per_s / 160
    )
    (few,) = plan(QUICK).scenarios
    assert few.workers == 4 and [traffic.models for traffic in few.traffics] == [20]
