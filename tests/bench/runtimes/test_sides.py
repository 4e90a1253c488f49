from __future__ import annotations

from pathlib import Path

import pytest

from shoal.bench.runtimes.sides import Side, sides_of
from shoal.catalog.parse import to_yaml
from shoal.catalog.resolve import Catalog
from shoal.errors import CardError, ConfigError


def test_a_kind_by_its_name() -> None:
    side = Side("torch", "all-MiniLM-L6-v2", 2, Catalog.load())
    assert (side.kind, side.load.dtype, side.load.threads) == ("torch", "auto", 2)
    assert side.tokens(["Hello, world!"]) == [[101, 7592, 1010, 2088, 999, 102]]


def test_a_kind_with_a_card_of_its_own() -> None:
    side = Side("torch:minilm", "no-such-card", 1, Catalog.load())
    assert (side.name, side.kind) == ("torch:minilm", "torch")
    assert side.load.model == "all-MiniLM-L6-v2"


def test_a_kind_that_is_none() -> None:
    with pytest.raises(ConfigError, match=r"no runtime 'troch' .did you mean 'torch'"):
        Side("troch", "all-MiniLM-L6-v2", 1, Catalog.load())


def test_a_card_of_ones_own_comes_before_the_packaged_one(tmp_path: Path) -> None:
    own = to_yaml(Catalog.load().card("all-MiniLM-L6-v2")).replace(
        "max_tokens: 256", "max_tokens: 9"
    )
    (tmp_path / "own.yaml").write_text(own)
    (side,) = sides_of(["torch"], "all-MiniLM-L6-v2", 1, [str(tmp_path)])
    assert side.load.max_tokens == 9


def test_a_folder_of_cards_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(CardError, match="no such card file or folder of cards"):
        sides_of(["torch"], "all-MiniLM-L6-v2", 1, [str(tmp_path / "cards")])
