"""Runs one scenario under one rule: the one entry to both kinds of worlds."""

from __future__ import annotations

import gc

from shoal.sim.meter import Outcome
from shoal.sim.pushed import PushWorld
from shoal.sim.rules import Rule
from shoal.sim.scenario import Scenario
from shoal.sim.stage import Span
from shoal.sim.workload import Request, requests
from shoal.sim.world import PullWorld


def run(scenario: Scenario, rule: Rule, rate: float, span: Span, seed: int) -> Outcome:
    """Offer `rate` requests a second; the same seed gives all rules the same requests."""
    coming = requests(scenario.models, scenario.traffic, rate, span.seconds, seed)
    return play(scenario, rule, coming, span, seed)


def play(scenario: Scenario, rule: Rule, coming: list[Request], span: Span, seed: int) -> Outcome:
    """Play requests that are there already: drawn, or read from a trace."""
    world = _world(scenario, rule, span, seed)
    # What is made until here stays to the end. To look at it for garbage again and again takes an
    # eighth of a run with 100 workers.
    gc.freeze()
    try:
        return world.run(coming)
    finally:
        gc.unfreeze()


def _world(scenario: Scenario, rule: Rule, span: Span, seed: int) -> PullWorld | PushWorld:
    if rule.kind == "pull":
        return PullWorld(scenario, span, seed)
    return PushWorld(scenario, rule, span, seed)
