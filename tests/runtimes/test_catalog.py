"""Every card that comes with Shoal asks for nothing that its runtimes lack."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from shoal.catalog.card import Card
from shoal.catalog.resolve import Catalog
from shoal.runtimes.candle.configs import FAMILIES as ENCODERS
from shoal.runtimes.gguf.runtime import FAMILIES as FILES
from shoal.runtimes.onnx.encoders.heads import HEADS as ENCODED
from shoal.runtimes.onnx.runtime import FAMILIES as GRAPHS
from shoal.runtimes.torch.families.known import FAMILIES
from shoal.runtimes.torch.heads.build import GENERATE, HEADS
from shoal.worker.models import heads_of

#: Kind -> families and heads that it has code for.
CODE: dict[str, tuple[Collection[str], Collection[str]]] = {
    "torch": (FAMILIES, {*HEADS, GENERATE}),
    "candle": (ENCODERS, {"dense"}),
    "onnx": (GRAPHS, {"ocr", *ENCODED}),
    "gguf": (FILES, {"generate"}),
}


@pytest.mark.parametrize("card", Catalog.load().cards(), ids=lambda card: card.name)
def test_a_card_has_code_for_its_family_and_its_heads(card: Card) -> None:
    asked = {str(options["head"]) for options in heads_of(card).values()}
    assert asked
    for name in {"default", *card.profiles}:
        families, heads = CODE[card.profile(name).runtime]
        assert card.family in families
        assert asked <= set(heads)
