"""The knee: the highest load that is answered within the goal, found by bisection.

A load is good if at most one request in a hundred is late. Runs that are clearly lost end early,
so that a search costs about as much as its good runs.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from shoal.sim.meter import Outcome
from shoal.sim.rules import Rule
from shoal.sim.run import run
from shoal.sim.scenario import Scenario
from shoal.sim.stage import Span

#: Share of requests that may be late: the 99th percentile is the goal.
LATE = 0.01
#: Loads are searched from this share of capacity; round robin with many models gets to 0.05.
LEAST_LOAD, MOST_LOAD = 0.02, 1.1
#: Seven steps over that range leave 3 %; four around a neighbour's knee as much.
STEPS, STEPS_NEAR = 7, 4
NEAR = 1.25
#: Requests that a run should measure, and bounds of how long it measures, in goals: what is a few
#: per cent too much must have the time to become late.
REQUESTS = 20_000
LEAST_GOALS, MOST_GOALS = 4.0, 15.0
WARM_GOALS = 2.0


class Knee(msgspec.Struct, frozen=True):
    """The highest good load, as a share of capacity, and what was measured there."""

    load: float
    outcome: Outcome


def span_at(scenario: Scenario, rate: float) -> Span:
    """How long to measure at this rate."""
    goal_s = scenario.goal_s
    seconds = min(max(REQUESTS / rate, LEAST_GOALS * goal_s), MOST_GOALS * goal_s)
    return Span(WARM_GOALS * goal_s, seconds, give_up=True)


def at_load(scenario: Scenario, rule: Rule, load: float, seed: int) -> Outcome:
    """Run at this share of the scenario's capacity."""
    rate = load * scenario.capacity
    return run(scenario, rule, rate, span_at(scenario, rate), seed)


def knee_of(scenario: Scenario, rule: Rule, seed: int, near: float | None = None) -> Knee | None:
    """The knee of one rule. `near`: the load of one like it, to search around first."""

    def try_(load: float) -> Outcome:
        return at_load(scenario, rule, load, seed)

    if near is not None:
        found, bounded = bisect(try_, near / NEAR, near * NEAR, STEPS_NEAR)
        if bounded and found is not None:
            return found
    found, bounded = bisect(try_, LEAST_LOAD, MOST_LOAD, STEPS)
    if bounded or found is None:
        return found
    return bisect(try_, found.load, MOST_LOAD * NEAR, STEPS_NEAR)[0] or found


def bisect(
    try_: Callable[[float], Outcome], least: float, most: float, steps: int
) -> tuple[Knee | None, bool]:
    """Bisect loads between `least` and `most`, geometrically.

    After n steps the knee is known up to a factor of (most / least)^(1/2^n).

    Returns:
        The highest that was good, None without one, and whether any was bad.
    """
    best: Knee | None = None
    bounded = False
    for _ in range(steps):
        load = (least * most) ** 0.5
        outcome = try_(load)
        if outcome.late <= LATE:
            best, least = Knee(load, outcome), load
        else:
            most, bounded = load, True
    return best, bounded
