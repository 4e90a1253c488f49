"""What a newcomer copies works: cards parse, settings load, and the client runs against both."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import shoal
from shoal.bench.serving import Serving
from shoal.catalog.fetch import fetch
from shoal.catalog.parse import read_card
from shoal.catalog.resolve import Catalog
from shoal.cli.context import load_settings
from shoal.settings import ALL, GatewaySettings, WorkerSettings
from tests.cli.serving import until

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
CARDS = sorted((EXAMPLES / "cards").glob("*.yaml"))


@pytest.mark.parametrize("file", CARDS, ids=lambda file: file.stem)
def test_a_card_parses_and_is_called_as_its_file(file: Path) -> None:
    assert read_card(file).name == file.stem


def test_the_page_leaves_nothing_out() -> None:
    page = (EXAMPLES / "README.md").read_text()
    files = [path for path in EXAMPLES.rglob("*.*") if path.name != "README.md"]
    shown = [path.relative_to(EXAMPLES).as_posix() for path in files if path.suffix != ".pyc"]
    assert [name for name in shown if f"({name})" not in page] == []


def test_the_settings_are_settings() -> None:
    file = EXAMPLES / "serve.toml"
    for struct in ALL:
        if struct.__name__ != "RuntimeSettings":  # which needs what only a worker gives
            load_settings(struct, {}, file, {})
    assert load_settings(GatewaySettings, {}, file, {}).catalog == ["examples/cards"]
    worker = load_settings(WorkerSettings, {}, file, {})
    catalog = Catalog.load([str(EXAMPLES / "cards")])
    assert [catalog.card(name).name for name in worker.models] == ["all-MiniLM-L6-v2"]


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """The example deployment, with the folder of a real model where the card looks for it."""
    home = tmp_path_factory.mktemp("examples")
    shutil.copytree(EXAMPLES, home / "examples")
    folder = fetch(Catalog.load().card("all-MiniLM-L6-v2"), cache_dir=None, offline=False)
    (home / "examples" / "cards" / "my-model").symlink_to(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        with Serving(["--config", "examples/serve.toml"]) as running:
            yield running


def test_a_model_is_kept_that_nobody_asked_for(serving: Serving) -> None:
    with shoal.Client(serving.url) as client:
        until(lambda: client.model("always-there").state == "resident", "it is loaded", 60)
        assert client.model("all-MiniLM-L6-v2").lanes == 1
        assert client.model("my-encoder").lanes == 0


@pytest.mark.parametrize("model", ["all-MiniLM-L6-v2", "my-encoder"])
def test_the_client_finds_and_tells(serving: Serving, model: str) -> None:
    done = subprocess.run(
        [sys.executable, "examples/client.py", model, "--url", serving.url],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:3] == [
        "A whale is a mammal that lives in the sea.",
        "60 of 61 texts have a vector",
        "text 60: too_many_tokens",
    ]
    assert [line for line in lines if line.startswith(f"{model} ")]
    with shoal.Client(serving.url) as client:  # a pulse tells it, up to half a second later
        until(lambda: client.model(model).state == "resident", "it is told", 10)
        assert client.model(model).bytes > 0
