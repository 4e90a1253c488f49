"""Every card that comes with Shoal asks for nothing that the torch runtime lacks."""

from __future__ import annotations

import pytest

from shoal.catalog.card import Card
from shoal.catalog.resolve import Catalog
from shoal.runtimes.torch.families.known import FAMILIES
from shoal.runtimes.torch.heads.build import HEADS
from shoal.worker.models import heads_of


@pytest.mark.parametrize("card", Catalog.load().cards(), ids=lambda card: card.name)
def test_a_card_has_code_for_its_family_and_its_heads(card: Card) -> None:
    assert card.family in FAMILIES
    heads = {str(options["head"]) for options in heads_of(card).values()}
    assert heads
    assert heads <= set(HEADS)
