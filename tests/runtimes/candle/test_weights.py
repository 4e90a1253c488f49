"""Where a model's weights lie for the library, and what stands in them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from shoal.runtimes.candle.weights import place
from tests.runtimes.torch import made

PREFIXES = ("model.", "bert.")
ONE, TWO = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones(5, np.float32)


def folders(tmp_path: Path) -> tuple[Path, Path]:
    model, there = tmp_path / "model", tmp_path / "there"
    model.mkdir()
    there.mkdir()
    return model, there


def test_names_that_the_library_knows_are_not_copied(tmp_path: Path) -> None:
    model, there = folders(tmp_path)
    save_file({"a": ONE}, model / "model.safetensors")
    place(there, model, PREFIXES)
    assert (there / "model.safetensors").is_symlink()
    assert (there / "model.safetensors").samefile(model / "model.safetensors")


def test_a_prefix_is_taken_off_and_no_number_moves(tmp_path: Path) -> None:
    model, there = folders(tmp_path)
    file = model / "model.safetensors"
    save_file({"bert.ä.weight": ONE, "model.b": TWO, "head": TWO}, file, {"format": "pt"})
    before = file.read_bytes()
    place(there, model, PREFIXES)
    found = load_file(there / "model.safetensors")
    assert {*found} == {"ä.weight", "b", "head"}
    np.testing.assert_array_equal(found["ä.weight"], ONE)
    np.testing.assert_array_equal(found["b"], TWO)
    assert file.read_bytes() == before
    assert len((there / "model.safetensors").read_bytes()) == len(before)


def test_several_files_with_an_index(tmp_path: Path) -> None:
    model, there = folders(tmp_path)
    save_file({"bert.a": ONE}, model / "1.safetensors")
    save_file({"head": TWO}, model / "2.safetensors")
    index = {"metadata": {}, "weight_map": {"bert.a": "1.safetensors", "head": "2.safetensors"}}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    place(there, model, PREFIXES)
    told = json.loads((there / "model.safetensors.index.json").read_text())
    assert told["weight_map"] == {"a": "1.safetensors", "head": "2.safetensors"}
    assert {*load_file(there / "1.safetensors")} == {"a"}
    assert (there / "2.safetensors").is_symlink()


def test_a_tensor_that_is_there_in_both_ways_is_refused(tmp_path: Path) -> None:
    model, there = folders(tmp_path)
    save_file({"bert.a": ONE, "a": TWO}, model / "model.safetensors")
    with made.load_fails("holds 'a' twice: with and without model. or bert."):
        place(there, model, PREFIXES)


@pytest.mark.parametrize("data", [b"", b"\xff" * 40, b"\x02\0\0\0\0\0\0\0[]"])
def test_a_damaged_file_is_the_library_s_to_refuse(tmp_path: Path, data: bytes) -> None:
    model, there = folders(tmp_path)
    (model / "model.safetensors").write_bytes(data)
    place(there, model, PREFIXES)
    assert (there / "model.safetensors").read_bytes() == data
