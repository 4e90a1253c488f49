import pytest

from shoal.catalog.card import Card, CostSeed, EncodeTask, Input, Profile, Source, Tasks
from shoal.core.cost import TERMS, Work
from shoal.core.models import ModelState
from shoal.values import Features
from shoal.worker.models import spec_of

PROFILE = Profile(cost=CostSeed(base_s=1.0, token_s=0.1, square_s=0.01, item_s=0.5, pixel_s=1e-3))


@pytest.mark.parametrize(
    ("inputs", "work", "batch_s"),
    [
        (["text"], "text", 1.0 + 0.1 * 10 + 0.01 * 100 + 0.5 * 2),
        (["text", "image"], "image", 1.0 + 0.1 * 10 + 0.5 * 2 + 1e-3 * 500),
        (["audio"], "audio", 1.0 + 0.1 * 10 + 0.5 * 2),
    ],
)
def test_the_inputs_decide_what_a_batch_is_priced_by(
    inputs: list[Input], work: Work, batch_s: float
) -> None:
    tasks = Tasks(encode=EncodeTask(dim=8))
    card = Card("m", Source(dir="."), "fake", tasks, max_tokens=64, inputs=inputs)
    spec = spec_of(card, PROFILE)
    assert spec.work == work and len(spec.cost_seed) == 1 + len(TERMS[work])
    features = Features(10, 2, 100, pixels=500)
    assert ModelState(spec).cost.batch_s(features) == pytest.approx(batch_s)
