"""Models in 8 bits, whether their cards have such a profile or not."""

from __future__ import annotations

import pytest

from shoal.bench.eight_bits import PROFILE, in_8_bits
from shoal.bench.failure import BenchFailed
from shoal.bench.quality.measure import MODELS, Plan, measure
from shoal.catalog.parse import parse_card, to_yaml
from shoal.catalog.resolve import Catalog

CARDS = {name: Catalog.load([]).card(name) for name in MODELS}


def test_a_card_without_such_a_profile_gets_one() -> None:
    card = CARDS["rampart-pii"]
    assert PROFILE not in card.profiles
    changed = in_8_bits(card)
    assert changed.profiles[PROFILE].options == {"weights": "int8"}
    assert changed.profiles.keys() - card.profiles.keys() == {PROFILE}
    assert parse_card(to_yaml(changed), "a card") == changed


@pytest.mark.parametrize("name", ["all-MiniLM-L6-v2", "whisper-tiny.en", "pp-ocrv6-small"])
def test_one_that_has_it_or_cannot_have_it_stays_as_it_is(name: str) -> None:
    assert in_8_bits(CARDS[name]) is CARDS[name]


def test_a_model_that_is_not_compared_is_refused() -> None:
    with pytest.raises(BenchFailed, match=r"minilm is not compared; these are: all-MiniLM-L6-v2, "):
        measure(Plan(models=("minilm",)), print)
