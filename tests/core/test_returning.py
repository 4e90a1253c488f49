"""What is given back between workers that share their queues: everything ends, nothing goes round."""

import pytest

from shoal.core.batcher import Budget
from shoal.core.returning import MAX_DELIVERED
from shoal.sim.rules import PULL
from shoal.sim.run import run
from shoal.sim.scenario import Cluster, Model, Scenario, Traffic, zipf
from shoal.sim.stage import Span

#: Batches of some 50 ms: far longer than any margin, so that most of what comes unasked goes back.
SLOW = (0.05, 1e-5, 0.0, 0.0)
BUDGET = Budget(0.1, 8192, 64)


def world(workers: int, models: int) -> Scenario:
    return Scenario(
        name="test",
        models=tuple(
            Model(f"m{number}", share, SLOW, BUDGET) for number, share in enumerate(zipf(models))
        ),
        traffic=Traffic(),
        cluster=Cluster(workers),
        goal_s=5.0,
    )


@pytest.mark.parametrize(("workers", "models", "rate"), [(2, 3, 30.0), (4, 20, 100.0)])
def test_units_are_handed_round_a_bounded_number_of_times_and_all_are_answered(
    workers: int, models: int, rate: float
) -> None:
    outcome = run(world(workers, models), PULL, rate, Span(1.0, 8.0), 1)
    assert outcome.late == 0.0
    requests = rate * 9.0
    assert 0 < outcome.redelivered <= requests * 1.2 * (MAX_DELIVERED - 1)
    # Far from the bound: with that many workers few are free, but a model that was given back is
    # not asked for by a busy one.
    assert outcome.redelivered <= requests * 1.2 * workers
