"""Items of models of all inputs, as a runtime gets them; see `test_runtime` for what is done with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shoal.catalog.card import Card, Profile, Source
from shoal.catalog.tasks import Dense, EncodeTask, GenerateTask, Tasks
from shoal.cli.tried import profile_for, sample_of
from shoal.errors import ModelLoadFailed
from shoal.runtimes.check.sample import batch_of, spoiled
from shoal.settings import WorkerSettings

SETTINGS = WorkerSettings()
DENSE = Tasks(EncodeTask(dense=Dense(8)))


def card(tasks: Tasks = DENSE, **more: Any) -> Card:
    return Card("m", Source(dir="."), "fake", tasks, 64, **more)


def test_texts(tmp_path: Path) -> None:
    sample = sample_of(card(), tmp_path, Profile("fake"), "text", SETTINGS)
    run = batch_of(3, "m", sample.items)
    assert (run.batch, run.model, run.heads) == (3, "m", ["dense"])
    assert run.texts is not None
    assert 1 < len(set(run.texts)) < len(run.texts)
    assert (sample.prompts, sample.load.path) == ((), str(tmp_path))
    assert spoiled(sample.items[0], 1) is None


@pytest.mark.parametrize(("what", "starts"), [("image", b"\x89PNG"), ("audio", b"RIFF")])
def test_files(what: Any, starts: bytes, tmp_path: Path) -> None:
    sample = sample_of(card(inputs=[what]), tmp_path, Profile("fake"), "media", SETTINGS)
    files = batch_of(3, "m", sample.items).media
    assert files is not None
    assert all(file.startswith(starts) for file in files)
    assert len(set(files)) > 1


def test_a_model_that_only_generates(tmp_path: Path) -> None:
    sample = sample_of(
        card(Tasks(generate=GenerateTask())), tmp_path, Profile("fake"), "tokens", SETTINGS
    )
    assert (sample.items, len(sample.prompts)) == ((), 3)


def test_the_profile_is_one_for_this_kind() -> None:
    profiles = {"cpu": Profile("onnx", threads=3), "default": Profile("torch", threads=4)}
    own = card(profiles=profiles)
    assert profile_for(own, "onnx").threads == 3
    assert profile_for(own, "torch").threads == 4
    assert profile_for(own, "mine") == Profile("mine")  # type: ignore[arg-type]


def test_a_runtime_that_takes_none_of_its_inputs(tmp_path: Path) -> None:
    sounds = card(inputs=["audio"])
    with pytest.raises(ModelLoadFailed, match=r"its runtime .fake. takes text only"):
        sample_of(sounds, tmp_path, Profile("fake"), "text", SETTINGS)
