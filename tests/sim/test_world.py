"""Whole worlds: the same seed, nothing lost, the laws of queueing."""

import msgspec
import pytest

from shoal.sim.meter import Outcome
from shoal.sim.rules import PULL, RIVALS, Rule
from shoal.sim.run import play, run
from shoal.sim.stage import Span
from shoal.sim.workload import requests
from shoal.sim.world import PullWorld
from tests.sim.worlds import QUIET, scenario, single_server

RULES = (PULL, *RIVALS)


def figures(outcome: Outcome) -> Outcome:
    """All of it that is virtual."""
    return msgspec.structs.replace(outcome, cpu_s=0.0)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_the_same_seed_gives_the_same_world(rule: Rule) -> None:
    world, span = scenario(), Span(0.1, 0.3)
    first, again = (run(world, rule, 1000.0, span, seed=7) for _ in range(2))
    other = run(world, rule, 1000.0, span, seed=8)
    assert figures(first) == figures(again)
    assert figures(first) != figures(other)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_request_is_answered_once(rule: Rule) -> None:
    world, span = scenario(), Span(0.1, 0.4)
    coming = requests(world.models, world.traffic, 1500.0, span.seconds, seed=3)
    outcome = play(world, rule, coming, span, seed=3)
    assert outcome.answered == len(coming)
    assert outcome.refused == {}
    assert outcome.late == 0.0


def test_what_is_refused_and_what_is_answered_are_all_there_is() -> None:
    """Ten times too much for longer than admission allows to wait."""
    world = scenario(1, 1)
    slow = msgspec.structs.replace(world.models[0], cost=(1.0, 1e-3, 0.0, 0.0))
    world = msgspec.structs.replace(world, models=(slow,), goal_s=400.0, timeout_s=300.0)
    span = Span(0.0, 30.0)
    coming = requests(world.models, world.traffic, 80.0, span.seconds, seed=5)
    outcome = play(world, PULL, coming, span, seed=5)
    assert outcome.refused["overloaded"] > 0
    assert outcome.answered + sum(outcome.refused.values()) == len(coming)


@pytest.mark.parametrize("rule", [PULL, RIVALS[1]], ids=lambda rule: rule.name)
def test_littles_law(rule: Rule) -> None:
    """Mean number in the system = rate of arrivals x mean time there (Little, 1961)."""
    outcome = run(scenario(), rule, 2000.0, Span(0.5, 4.0), seed=1)
    assert outcome.mean_in_system == pytest.approx(
        outcome.offered * outcome.mean_latency_s, rel=0.03
    )


@pytest.mark.parametrize(
    ("rule", "load", "sigma"),
    [(PULL, 0.5, 0.0), (PULL, 0.6, 0.6), (RIVALS[0], 0.7, 0.0)],
    ids=["pull, M/D/1", "pull, M/G/1", "round-robin, M/D/1"],
)
def test_one_server_waits_as_pollaczek_and_khinchine_say(
    rule: Rule, load: float, sigma: float
) -> None:
    """M/G/1: mean wait = load x service x (1 + cv^2) / (2 (1 - load)); sigma 0 is M/D/1."""
    service_s = 0.02
    mean_s = service_s * 2.718281828 ** (sigma**2 / 2)
    squared_cv = 2.718281828 ** (sigma**2) - 1
    rate = load / mean_s
    world = single_server(service_s, sigma=sigma)
    outcome = run(world, rule, rate, Span(20.0, 15_000 / rate), seed=11)
    waits_s = load * mean_s * (1 + squared_cv) / (2 * (1 - load))
    assert outcome.utilisation == pytest.approx(load, rel=0.03)
    assert outcome.mean_latency_s == pytest.approx(waits_s + mean_s, rel=0.05)


def test_a_worker_that_dies_loses_nothing() -> None:
    world = scenario(3, 3, noise=QUIET)
    kills = msgspec.structs.replace(world.cluster, kills=((0.5, 0), (1.0, 1)), restart_s=1.0)
    world = msgspec.structs.replace(world, cluster=kills, goal_s=20.0)
    span = Span(0.0, 2.0)
    coming = requests(world.models, world.traffic, 1500.0, span.seconds, seed=2)
    outcome = play(world, PULL, coming, span, seed=2)
    assert outcome.answered == len(coming)
    assert outcome.redelivered > 0


def test_in_a_large_pool_too_workers_hear_of_the_pulls_of_some_others() -> None:
    """18 workers are two groups, and each worker knows how many there are."""
    world, span = scenario(20, 18), Span(0.05, 0.1)
    coming = requests(world.models, world.traffic, 20_000.0, span.seconds, seed=4)
    playing = PullWorld(world, span, seed=4)
    outcome = playing.run(coming)
    assert outcome.answered == len(coming)
    assert {worker.core.workers for worker in playing.stage.workers} == {18}
    assert outcome.told > 0


def test_a_large_pool_of_few_models_begins_with_full_batches() -> None:
    """Lanes that share models take a part of what waits, but not of what they never had."""
    world, span = scenario(20, 60), Span(0.0, 0.1)
    coming = requests(world.models, world.traffic, 0.5 * world.capacity, span.seconds, seed=6)
    outcome = play(world, PULL, coming, span, seed=6)
    assert outcome.p99_s < 0.06  # 92 ms if batches grow from one unit
