"""Cards as the core sees them: how large a model is thought to be before it was loaded."""

from pathlib import Path

import msgspec
import pytest

from shoal.catalog.card import Card, Dense, EncodeTask, Memory, Source, Tasks
from shoal.catalog.fetch import cached
from shoal.core.models import ModelState
from shoal.values import features_of
from shoal.worker.models import LOAD_BASE_S, LOAD_BYTES_S, spec_of


@pytest.fixture
def card(tmp_path: Path) -> Card:
    """A card of the folder `tmp_path`, with weights in two files of 1000 bytes each."""
    for name in ("a.safetensors", "b.bin", "readme.md"):
        (tmp_path / name).write_bytes(bytes(1000))
    tasks = Tasks(encode=EncodeTask(dense=Dense(8)))
    return Card("m", Source(dir=str(tmp_path)), "fake", tasks, 512, min_replicas=2)


def test_weights_on_disk_are_the_estimate(card: Card) -> None:
    spec = spec_of(card, card.profile("cpu"), cached(card, None))
    assert (spec.bytes_estimate, spec.min_replicas, spec.fetched) == (2000, 2, True)
    assert spec.load_s_estimate == LOAD_BASE_S + 2000 / LOAD_BYTES_S


def test_what_the_card_says_goes_before_its_files(card: Card) -> None:
    card = msgspec.structs.replace(card, memory=Memory(weights_mb=1.5))
    assert spec_of(card, card.profile("cpu"), cached(card, None)).bytes_estimate == 1_500_000


def test_what_was_measured_for_the_card_goes_before_both_and_is_sure(card: Card) -> None:
    card = msgspec.structs.replace(card, memory=Memory(weights_mb=1.5, held_mb=9))
    spec = spec_of(card, card.profile("cpu"), cached(card, None))
    assert (spec.bytes_estimate, spec.bytes_sure) == (9_000_000, True)
    assert ModelState(spec).footprint.sure
    assert spec.load_s_estimate == LOAD_BASE_S + 1_500_000 / LOAD_BYTES_S


def test_of_a_model_that_was_never_fetched_nothing_is_known(card: Card, tmp_path: Path) -> None:
    card = msgspec.structs.replace(card, source=Source(dir=str(tmp_path / "gone")))
    spec = spec_of(card, card.profile("cpu"), cached(card, None))
    assert (spec.bytes_estimate, spec.fetched) == (0, False)


def test_a_larger_image_is_predicted_to_cost_more(card: Card) -> None:
    card = msgspec.structs.replace(card, inputs=["image"])
    model = ModelState(spec_of(card, card.profile("cpu")))
    small, large = (model.cost.batch_s(features_of([tokens])) for tokens in (100, 400))
    assert large > small
