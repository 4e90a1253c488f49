"""One real `shoal serve` of the real model, shared by the tests of this folder."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.bench.stack import ServedStack
from shoal.catalog.fetch import fetch
from shoal.catalog.resolve import Catalog

MODEL = "all-MiniLM-L6-v2"


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedStack]:
    served = ServedStack(MODEL, tmp_path_factory.mktemp("serve"), ["--catalog", "tests/cards"])
    asyncio.run(served.__aenter__())
    try:
        yield served
    finally:
        asyncio.run(served.__aexit__(None, None, None))


@pytest.fixture(scope="session")
def folder() -> Path:
    """The model's files."""
    return fetch(Catalog.load().card(MODEL), cache_dir=None, offline=False)
