"""Texts have the tokens that they should have, and padding is what libraries compute for nothing."""

from __future__ import annotations

import random

import pytest

from shoal.bench.heads.lengths import EQUAL, MIXED, Texts, padding
from shoal.bench.texts import MEDIAN_TOKENS
from shoal.catalog.fetch import fetch
from shoal.catalog.resolve import Catalog


@pytest.fixture(scope="module")
def texts() -> Texts:
    folder = fetch(Catalog.load().card("rampart-pii"), cache_dir=None, offline=False)
    return Texts("entities", folder)


def test_texts_with_personal_data_have_one_length_or_many(texts: Texts) -> None:
    equal = texts.draw(EQUAL, random.Random(1), 24)
    assert equal == texts.draw(EQUAL, random.Random(1), 24)
    lengths = texts.tokens(equal)
    # A cut inside a word may make its last piece another one.
    assert all(abs(length - MEDIAN_TOKENS) <= 1 for length in lengths)
    assert padding(lengths, 8) < 0.03
    assert sum("example" in text or "street" in text.lower() for text in equal) > 12
    assert max(texts.tokens(texts.draw(MIXED, random.Random(1), 24))) > 2 * MEDIAN_TOKENS


def test_padding_fills_each_batch_up_to_its_longest() -> None:
    assert padding([4, 1, 2, 3], 2) == pytest.approx(1 - 10 / 12)  # 1 2, 3 4
    assert padding([4, 1, 2, 3], 4) == pytest.approx(1 - 10 / 16)
    assert padding([5] * 9, 4) == 0
