"""One real `shoal serve` of the real model, shared by the tests of this folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.bench.serving import Serving
from shoal.catalog.fetch import fetch
from shoal.catalog.resolve import Catalog

MODEL = "all-MiniLM-L6-v2"


@pytest.fixture(scope="session")
def stack() -> Iterator[Serving]:
    with Serving([MODEL, "--catalog", "tests/cards"]) as serving:
        yield serving


@pytest.fixture(scope="session")
def folder() -> Path:
    """The model's files."""
    return fetch(Catalog.load().card(MODEL), cache_dir=None, offline=False)
