"""Which graph is made of a folder, when anew, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from transformers import BertForSequenceClassification

from shoal.errors import ConfigError, ModelLoadFailed, SourceError
from shoal.runtimes.onnx.export.build import Model, exported, weights_of
from tests.runtimes.torch.made import change_config, save_bert

MEAN = {"dense": {"head": "dense", "pooling": "mean"}}


def made(folder: Path, **changes: Any) -> Path:
    fields: dict[str, Any] = {"folder": folder, "family": "bert", "heads": MEAN}
    return exported(Model(**(fields | changes)), str(folder / "cache"))


def test_a_graph_is_made_once(tmp_path: Path) -> None:
    save_bert(tmp_path)
    first = made(tmp_path)
    assert {path.name for path in first.iterdir()} == {
        "config.json",
        "made_of.json",
        "model.onnx",
        "model.onnx_data",
    }
    written = (first / "model.onnx").stat().st_mtime_ns
    assert made(tmp_path) == first
    assert (first / "model.onnx").stat().st_mtime_ns == written


@pytest.mark.parametrize("absolute", [False, True])
def test_no_file_outside_the_folder_is_read(tmp_path: Path, absolute: bool) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    save_bert(folder)
    there = (folder / "model.safetensors").rename(tmp_path / "other.safetensors")
    name = str(there) if absolute else "../other.safetensors"
    index = {"weight_map": dict.fromkeys(load_file(there), name)}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(SourceError, match=r"index\.json names a file outside the folder"):
        made(folder)


def test_other_weights_and_other_heads_have_graphs_of_their_own(tmp_path: Path) -> None:
    save_bert(tmp_path)
    cls = {"dense": {"head": "dense", "pooling": "cls"}}
    folders = [made(tmp_path), made(tmp_path, weights="int8"), made(tmp_path, heads=cls)]
    assert len(set(folders)) == 3
    sizes = [(folder / "model.onnx_data").stat().st_size for folder in folders]
    assert sizes[1] < sizes[0]


def test_other_files_make_another_graph(tmp_path: Path) -> None:
    save_bert(tmp_path)
    before = made(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    save_file({name: 2 * array for name, array in tensors.items()}, tmp_path / "model.safetensors")
    assert made(tmp_path) != before


def test_graphs_that_nobody_asks_for_any_more_go_when_another_one_of_the_model_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, folder = tmp_path / "cache", tmp_path / "bert"
    places = [tmp_path / place / "bert" for place in ("a", "b")]  # called alike
    for place in (folder, *places):
        place.mkdir(parents=True)
        save_bert(place)

    def export(of: Path, **changes: Any) -> Path:
        fields: dict[str, Any] = {"folder": of, "family": "bert", "heads": MEAN}
        return exported(Model(**(fields | changes)), str(cache))

    def there() -> set[str]:
        return {path.name for path in (cache / "exported").iterdir() if path.name[0] != "."}

    cls = {"dense": {"head": "dense", "pooling": "cls"}}
    valid = [export(folder), export(folder, heads=cls), export(folder, weights="int8")]
    changed, gone = map(export, places)
    (cache / "exported" / "bert-float32-0123456789ab").mkdir()  # of code that told of nothing
    (cache / "exported" / "bert-large-float32-0123456789ab").mkdir()  # of another model
    assert len(there()) == 7
    change_config(places[0], {"layer_norm_eps": 1e-3})
    (places[1] / "config.json").unlink()
    anew = export(places[0])
    assert changed != anew and gone.name not in there()
    assert there() == {path.name for path in (*valid, anew)} | {"bert-large-float32-0123456789ab"}
    monkeypatch.setattr("shoal.runtimes.onnx.export.kept.VERSION", 2)
    newest = export(folder)
    assert there() == {newest.name, "bert-large-float32-0123456789ab"}


def test_weights_of_16_bits(tmp_path: Path) -> None:
    """Both kinds: numpy has the one, the other is read as the upper half of a float32."""
    import torch
    from safetensors.torch import load_file as load_tensors
    from safetensors.torch import save_file as save_tensors

    from shoal.runtimes.onnx.export.tensors import Tensors

    save_bert(tmp_path)
    tensors = load_tensors(tmp_path / "model.safetensors")
    name = "encoder.layer.0.intermediate.dense.weight"
    for dtype in (torch.float16, torch.bfloat16):
        save_tensors(
            {key: value.to(dtype) for key, value in tensors.items()},
            tmp_path / "model.safetensors",
        )
        expected = tensors[name].to(dtype).float().numpy()
        np.testing.assert_array_equal(Tensors(tmp_path, "bert.").read(name), expected)


def without(folder: Path, name: str) -> None:
    path = folder / "model.safetensors"
    save_file({k: v for k, v in load_file(path).items() if k != name}, path)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"family": "modernbert"}, SourceError, "no graph is made of family 'modernbert'"),
        ({"heads": {"x": {"head": "splade"}}}, ModelLoadFailed, "no head 'splade'"),
        (
            {"heads": {"dense": {"projections": ["2_Dense"]}}},
            ModelLoadFailed,
            "computes no projections",
        ),
        (
            {"heads": {"x": {"head": "cross-encoder"}}},
            SourceError,
            "missing tensor: classifier.weight",
        ),
    ],
)
def test_what_is_not_exported(
    tmp_path: Path, changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    save_bert(tmp_path)
    with pytest.raises(error, match=message):
        made(tmp_path, **changes)
    assert not list((tmp_path / "cache" / "exported").glob("[!.]*"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden_act": "silu"}, "activation 'silu' is not exported"),
        ({"num_attention_heads": 5}, "not shared evenly by 5 heads"),
        ({"num_hidden_layers": 10**12}, r"num_hidden_layers is 1000000000000; 0 to 10000"),
        ({"num_hidden_layers": -1}, "num_hidden_layers is -1"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type"),
        ({"vocab_size": 99}, r"tensor embeddings.word_embeddings.weight is \[101, 32\], not \[99"),
    ],
)
def test_what_config_says_otherwise(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    save_bert(tmp_path)
    change_config(tmp_path, change)
    with pytest.raises(SourceError, match=message):
        made(tmp_path)


def test_a_tensor_that_is_not_there(tmp_path: Path) -> None:
    save_bert(tmp_path, BertForSequenceClassification)
    without(tmp_path, "bert.encoder.layer.1.output.dense.weight")
    with pytest.raises(SourceError, match=r"missing tensor: encoder.layer.1.output.dense.weight"):
        made(tmp_path)


def test_what_a_profile_may_say() -> None:
    assert weights_of({}) == "float32"
    assert weights_of({"weights": "int8"}) == "int8"
    with pytest.raises(ConfigError, match=r"no graph is made with 'int4'.*float32, int8, shipped"):
        weights_of({"weights": "int4"})
