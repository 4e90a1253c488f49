"""A model whose files could not be loaded is tried again once somebody has mended them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from shoal.catalog.parse import parse_card
from shoal.catalog.resolve import Catalog
from shoal.core.batcher import Budget
from shoal.core.events import FilesChanged
from shoal.core.models import ModelSpec, ModelState
from shoal.worker import mending
from shoal.worker.mending import Mending

from .conftest import CARD, StartWorker
from .scripted import ScriptedGateway, until

Look = Callable[[], object]


class Watched:
    """One model that failed, of a folder of its own."""

    def __init__(self, tmp_path: Path) -> None:
        self.folder = tmp_path / "mine"
        text = CARD.format(name="m", options="{}", dim=8).replace("dir: .", f"dir: {self.folder}")
        spec = ModelSpec("m", "fake", 8, Budget(1.0, 8, 8), (0.0, 0.0, 0.0, 0.0))
        self.model = ModelState(spec)
        self.model.state = "failed"
        self.told: list[FilesChanged] = []
        catalog = Catalog([parse_card(text, "m.yaml")])
        self.mending = Mending({"m": self.model}, catalog, self.told.append)

    async def looks(self, count: int = 1) -> int:
        """How often it was told of a change during so many looks."""
        before = len(self.told)
        for _ in range(count):
            await self.mending.look()
        return len(self.told) - before


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


async def test_a_folder_that_stays_as_it_is_says_nothing(watched: Watched) -> None:
    assert await watched.looks(5) == 0
    watched.folder.mkdir()
    (watched.folder / "config.json").write_text("{}")
    assert await watched.looks(5) == 1, "once, however often it is looked at"


async def test_files_are_whole_once_they_rest(watched: Watched) -> None:
    watched.folder.mkdir()
    weights = watched.folder / "model.safetensors"
    weights.write_bytes(b"1")
    await watched.looks(2)
    for size in range(2, 6):
        weights.write_bytes(b"1" * size)
        assert await watched.looks() == 0
    assert await watched.looks() == 1


async def test_only_what_failed_is_looked_at(watched: Watched) -> None:
    await watched.looks(2)
    watched.model.state = "loading"
    await watched.looks()
    watched.folder.mkdir()
    (watched.folder / "config.json").write_text("{}")
    await watched.looks(2)
    watched.model.state = "failed"  # of these very files
    assert await watched.looks(3) == 0


async def test_a_link_to_nowhere_hides_no_other_file(watched: Watched) -> None:
    watched.folder.mkdir()
    (watched.folder / "gone").symlink_to(watched.folder / "nowhere")
    await watched.looks(2)
    (watched.folder / "config.json").write_text("{}")
    assert await watched.looks(2) == 1


async def test_a_worker_loads_a_mended_model_long_before_its_cooldown_ends(
    start_worker: StartWorker,
    gateway: ScriptedGateway,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mending, "LOOK_S", 0.05)
    folder = tmp_path / "mine"
    card = tmp_path / "mine.yaml"
    text = CARD.format(name="mine", options='{"inputs": "text"}', dim=8)
    card.write_text(text.replace("dir: .", f"dir: {folder}"))
    worker = await start_worker(catalog=[str(card)], models=["mine"], load_cooldown_s=600.0)
    model = worker.core.models["mine"]
    assert "no such folder" in (model.reason or "")

    def told() -> bool:
        said = gateway.pulses[worker.id].models.get("mine") if gateway.pulses else None
        return said is not None and said.state == "failed" and 500.0 < said.again_s <= 600.0

    await until(told)
    began = time.monotonic()
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    await until(lambda: model.state == "resident")
    assert time.monotonic() - began < 30.0
