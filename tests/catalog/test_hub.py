"""Models on a hub: the real huggingface_hub in a process of its own against a local server.

A process of its own since huggingface_hub reads its environment when it is imported.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from shoal.catalog.parse import parse_card

from .fake_hub import FakeHub, Repo, running
from .made import plain_files, sentence_files

_PULL = """
import json, sys
from shoal.catalog.fetch import cached, fetch
from shoal.catalog.parse import to_yaml
from shoal.catalog.card import Card, Source
from shoal.catalog.tasks import Dense, EncodeTask, Tasks
from shoal.errors import ShoalError
import msgspec
seen = []
cache, action, hub, revision, offline = json.loads(sys.argv[1])
try:
    if action == "cached":
        tasks = Tasks(encode=EncodeTask(dense=Dense(8)))
        source = Source(hub=hub, revision=revision)
        card = Card(name="m", source=source, family="bert", tasks=tasks, max_tokens=8)
        found = cached(card, cache)
        asked = "huggingface_hub" in sys.modules
        print(json.dumps({"folder": found and str(found), "asked": asked}))
        sys.exit()
    from shoal.catalog.infer import infer
    card = infer(hub, cache_dir=cache, offline=offline)
    if revision != "inferred":
        card = msgspec.structs.replace(card, source=Source(hub=hub, revision=revision))
    if action == "fetch":
        folder = fetch(card, cache_dir=cache, offline=offline, progress=lambda *a: seen.append(a))
        print(json.dumps({"folder": str(folder), "progress": seen[-1:]}))
    else:
        print(json.dumps({"card": to_yaml(card)}))
except ShoalError as error:
    print(json.dumps({"error": error.message, "code": error.code}))
"""


class Puller:
    """Runs one action in a fresh process with its own caches."""

    def __init__(self, hub: FakeHub, folder: Path) -> None:
        self.hub, self.cache = hub, folder / "cache"
        self.env = {"HF_ENDPOINT": hub.url, "HF_HOME": str(folder / "hf")}

    def __call__(
        self,
        action: str,
        hub: str = "org/tiny",
        revision: str | None = "inferred",
        offline: bool = False,
        **env: str,
    ) -> dict[str, object]:
        arguments = json.dumps([str(self.cache), action, hub, revision, offline])
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "HUGGING"))}
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", _PULL, arguments],
            env={**clean, **self.env, **env},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        result: dict[str, object] = json.loads(done.stdout)
        return result


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with running() as hub:
        yield hub


@pytest.fixture
def pull(hub: FakeHub, tmp_path: Path) -> Puller:
    return Puller(hub, tmp_path)


def test_a_card_from_a_hub_id_pins_the_commit_and_fetches_no_weights(
    hub: FakeHub, pull: Puller
) -> None:
    repo = hub.repos["org/tiny"] = Repo(
        {**sentence_files(), "README.md": "---\nlicense: mit\n---\n"}
    )
    card = parse_card(str(pull("infer")["card"]), "inferred")
    assert card.name == "org/tiny"
    assert card.source.hub == "org/tiny"
    assert card.source.revision == repo.branches["main"]
    assert card.license == "mit"
    assert card.memory.weights_mb == 0.2
    assert not [line for line in hub.log if "safetensors" in line]


def test_only_data_files_are_fetched(hub: FakeHub, pull: Puller) -> None:
    extra = {"pytorch_model.bin": b"x", "model.py": "x", "onnx/config.json": "{}", "a.onnx": b"x"}
    hub.repos["org/tiny"] = Repo({**sentence_files(), **extra})
    result = pull("fetch")
    folder = Path(str(result["folder"]))
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert names == set(sentence_files())
    assert result["progress"] == [["org/tiny", 250_000, 250_000]]


def test_later_pulls_keep_to_the_first_revision(hub: FakeHub, pull: Puller) -> None:
    repo = hub.repos["org/tiny"] = Repo(plain_files())
    first = pull("fetch", revision=None)
    commit = repo.commit({**plain_files(), "new.txt": "later"})
    assert pull("fetch", revision=None) == {**first, "progress": []}
    [record] = _records(pull)
    assert msgspec.json.decode(record.read_bytes())["commit"] != commit
    pinned = pull("fetch", revision=commit)
    assert str(pinned["folder"]).endswith(commit)


def test_a_branch_is_resolved_and_recorded_on_the_first_pull(hub: FakeHub, pull: Puller) -> None:
    repo = hub.repos["org/tiny"] = Repo(plain_files())
    first = repo.commit({**plain_files(), "of-a-branch.txt": "1"}, "refs/pr/3")
    folder = str(pull("fetch", revision="refs/pr/3")["folder"])
    assert folder.endswith(first)
    assert (Path(folder) / "of-a-branch.txt").is_file()
    later = repo.commit({**plain_files(), "of-a-branch.txt": "2"}, "refs/pr/3")
    assert later != first
    assert pull("fetch", revision="refs/pr/3")["folder"] == folder
    records = {file.name: msgspec.json.decode(file.read_bytes()) for file in _records(pull)}
    assert records["org--tiny--refs--pr--3.json"] == {
        "hub": "org/tiny",
        "revision": "refs/pr/3",
        "commit": first,
    }


@pytest.mark.parametrize("pinned", [False, True])
def test_what_was_never_pulled_is_told_without_the_hubs_library(
    hub: FakeHub, pull: Puller, pinned: bool
) -> None:
    repo = hub.repos["org/tiny"] = Repo(plain_files())
    revision = repo.branches["main"] if pinned else None
    assert pull("cached", revision=revision) == {"folder": None, "asked": False}
    folder = pull("fetch", revision=revision)["folder"]
    assert pull("cached", revision=revision) == {"folder": folder, "asked": True}


def _records(pull: Puller) -> list[Path]:
    return list((pull.cache / "hub").glob("*.json"))


def test_cached_models_work_without_a_hub(hub: FakeHub, pull: Puller) -> None:
    hub.repos["org/tiny"] = Repo(plain_files())
    first = pull("fetch")["folder"]
    before = len(hub.log)
    assert pull("fetch", offline=True)["folder"] == first
    assert pull("fetch", HF_HUB_OFFLINE="1")["folder"] == first
    assert pull("fetch", HF_ENDPOINT="http://127.0.0.1:1")["folder"] == first
    assert len(hub.log) == before


def test_offline_and_not_cached(hub: FakeHub, pull: Puller) -> None:
    hub.repos["org/tiny"] = Repo(plain_files())
    for result in (pull("fetch", offline=True), pull("fetch", HF_HUB_OFFLINE="1")):
        assert "is not wholly in the cache and offline is set" in str(result["error"])
        assert result["code"] == "source"
    assert hub.log == []


def test_only_looked_at_is_not_pulled(hub: FakeHub, pull: Puller) -> None:
    hub.repos["org/tiny"] = Repo(plain_files())
    pull("infer")
    assert "is not wholly in the cache" in str(pull("fetch", offline=True)["error"])


def test_an_unreachable_hub(pull: Puller) -> None:
    error = str(pull("infer", HF_ENDPOINT="http://127.0.0.1:1")["error"])
    assert "cannot be reached" in error
    assert "http://127.0.0.1:1" in error


def test_an_unreachable_hub_of_which_the_zoo_has_the_model(pull: Puller) -> None:
    unreached = str(
        pull("infer", "Org/BGE-small-en-v1.5", HF_ENDPOINT="http://127.0.0.1:1")["error"]
    )
    for error in (unreached, str(pull("infer", "Org/BGE-small-en-v1.5", offline=True)["error"])):
        assert "shoal models pull bge-small-en-v1.5 (shoal models pull --zoo" in error
    assert "--zoo" not in str(pull("infer", HF_ENDPOINT="http://127.0.0.1:1")["error"])


def test_warnings_of_the_hubs_library_are_told_once() -> None:
    warn = """
import logging, sys
from shoal.telemetry import log
log.configure("info", "text", sys.stdout)
import shoal.catalog.sources.hub
logging.getLogger("huggingface_hub.utils").warning("slow")
"""
    done = subprocess.run([sys.executable, "-c", warn], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout.count("slow") == 1


def test_a_gated_model_needs_a_token(hub: FakeHub, pull: Puller) -> None:
    hub.repos["org/tiny"] = Repo(plain_files(), gated="hf_secret")
    assert "is gated; accept its terms" in str(pull("infer")["error"])
    assert "folder" in pull("fetch", HF_TOKEN="hf_secret")


def test_a_model_that_does_not_exist(pull: Puller) -> None:
    assert "does not exist or is private" in str(pull("infer", hub="org/none")["error"])


def test_a_revision_that_does_not_exist(hub: FakeHub, pull: Puller) -> None:
    hub.repos["org/tiny"] = Repo(plain_files())
    assert "has no revision 'v9'" in str(pull("fetch", revision="v9")["error"])


def test_weights_that_are_pickles(hub: FakeHub, pull: Puller) -> None:
    files = {**plain_files(), "pytorch_model.bin": b"x"}
    del files["model.safetensors"]
    hub.repos["org/tiny"] = Repo(files)
    error = str(pull("infer")["error"])
    assert "only there as pytorch_model.bin, a pickle" in error
