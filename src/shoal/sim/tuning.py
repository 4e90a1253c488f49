"""Tunes the affinity router to a scenario, so that pulling is compared with its best.

Searches replicas and spill limit for the highest knee, on a seed that no comparison uses.
"""

from __future__ import annotations

import msgspec

from shoal.sim.knee import LATE, Knee, at_load, knee_of
from shoal.sim.rules import Rule
from shoal.sim.scenario import Scenario

SEED = 1000
#: Replicas as multiples of a model's share of traffic.
SPREADS = (1.0, 2.0)
#: Work in the best replica above which a unit spills, in full batches.
SPILL_BATCHES = (0.5, 1.5, 4.0)
#: A setting must be this much better than the best so far to be worth another step.
STEP = 1.04


def tuned(scenario: Scenario, rule: Rule, near: float | None = None) -> Rule:
    """The rule with the settings that carry the most load here; one model has nothing to tune.

    `near`: a share of capacity to search the first setting's knee around.
    """
    if len(scenario.models) == 1:
        return rule
    batch_s = scenario.models[0].budget.seconds
    best: tuple[Rule, Knee | None] | None = None
    for spread in SPREADS:
        for batches in SPILL_BATCHES:
            setting = msgspec.structs.replace(rule, spread=spread, spill_s=batches * batch_s)
            best = _better(scenario, setting, best, near)
    assert best is not None
    return best[0]


def _better(
    scenario: Scenario,
    setting: Rule,
    best: tuple[Rule, Knee | None] | None,
    near: float | None,
) -> tuple[Rule, Knee | None]:
    """`best`, or `setting` with as high a load as it can carry beyond that."""
    if best is None or best[1] is None:
        return setting, knee_of(scenario, setting, SEED, near)
    while best[1] is not None:
        load = best[1].load * STEP
        outcome = at_load(scenario, setting, load, SEED)
        if outcome.late > LATE:
            break
        best = (setting, Knee(load, outcome))
    return best
