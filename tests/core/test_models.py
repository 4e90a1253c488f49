"""What one model's full batch is."""

import pytest

from shoal.core.batcher import Budget
from shoal.core.models import ModelSpec, ModelState


def model(base_s: float) -> ModelState:
    return ModelState(ModelSpec("m", "fake", 40, Budget(0.1, 8192, 64), (base_s, 1e-3, 0.0, 0.0)))


def test_a_full_batch_is_what_the_fixed_cost_leaves_of_the_budget() -> None:
    assert model(base_s=0.04).batch_s == pytest.approx(0.06)


def test_a_fixed_cost_above_the_budget_leaves_as_much_for_items() -> None:
    assert model(base_s=0.2).batch_s == pytest.approx(0.2)


def test_a_unit_of_several_batches_is_not_taken_for_one() -> None:
    large = model(base_s=0.04)
    large.unit_seen(1.0)
    assert large.batch_s == 0.1
    large.hold("work", 0.5)
    large.coming["work"] = 1
    assert not large.gathering("work")  # half of the unit is more than a batch
