from __future__ import annotations

import pytest

from shoal.bench.runtimes.sides import Side
from shoal.errors import ConfigError


def test_a_kind_by_its_name() -> None:
    side = Side("torch", "all-MiniLM-L6-v2", threads=2)
    assert (side.kind, side.load.dtype, side.load.threads) == ("torch", "auto", 2)
    assert side.tokens(["Hello, world!"]) == [[101, 7592, 1010, 2088, 999, 102]]


def test_a_kind_with_a_card_of_its_own() -> None:
    side = Side("torch:minilm", "no-such-card", threads=1)
    assert (side.name, side.kind) == ("torch:minilm", "torch")
    assert side.load.model == "all-MiniLM-L6-v2"


def test_a_kind_that_is_none() -> None:
    with pytest.raises(ConfigError, match=r"no runtime 'troch' .did you mean 'torch'"):
        Side("troch", "all-MiniLM-L6-v2", threads=1)
