"""Reading folders: sharded, converted, broken, unsafe."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from shoal.runtimes.torch.runtime import TorchRuntime
from shoal.runtimes.torch.weights import Weights
from tests.runtimes.torch import made

ITEMS = made.random_items([5, 9])
QUERY = "encoder.layer.0.attention.self.query.weight"


def test_shards(runtime: TorchRuntime, tmp_path: Path) -> None:
    model = made.save_bert(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    model.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 1
    runtime.load(made.load(tmp_path))
    ours = made.vectors(made.run(runtime, ITEMS))
    np.testing.assert_allclose(ours, made.pooled(model, ITEMS, "mean"), atol=2e-5)


def test_names_of_checkpoints_converted_from_tensorflow(
    runtime: TorchRuntime, tmp_path: Path
) -> None:
    model = made.save_bert(tmp_path)
    _rewrite(
        tmp_path,
        lambda tensors: {
            "bert."
            + name.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta"): tensor
            for name, tensor in tensors.items()
        },
    )
    runtime.load(made.load(tmp_path))
    ours = made.vectors(made.run(runtime, ITEMS))
    np.testing.assert_allclose(ours, made.pooled(model, ITEMS, "mean"), atol=2e-5)


def test_missing_and_unexpected_tensors_are_named(runtime: TorchRuntime, tmp_path: Path) -> None:
    made.save_bert(tmp_path)
    _rewrite(tmp_path, lambda tensors: {_misspelt(name): t for name, t in tensors.items()})
    with made.load_fails(rf"missing tensors: {QUERY}; unexpected tensors: .*qeury"):
        runtime.load(made.load(tmp_path))


def test_many_missing_tensors_are_counted(runtime: TorchRuntime, tmp_path: Path) -> None:
    made.save_bert(tmp_path)
    _rewrite(tmp_path, lambda tensors: {QUERY: tensors[QUERY]})
    with made.load_fails(r"missing tensors: embeddings.* and 31 more"):
        runtime.load(made.load(tmp_path))


def test_a_wrong_shape_is_named(runtime: TorchRuntime, tmp_path: Path) -> None:
    made.save_bert(tmp_path)
    made.change_config(tmp_path, {"vocab_size": 99})
    with made.load_fails(r"word_embeddings\.weight is \[101, 32\], not \[99, 32\]"):
        runtime.load(made.load(tmp_path))


def test_pickles_are_refused(runtime: TorchRuntime, tmp_path: Path) -> None:
    model = made.save_bert(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    with made.load_fails(r"pytorch_model\.bin.*can run code.*Convert the model to safetensors"):
        runtime.load(made.load(tmp_path))


@pytest.mark.parametrize("keep", [0, 4, 100, 20_000])
def test_a_file_cut_short(runtime: TorchRuntime, tmp_path: Path, keep: int) -> None:
    made.save_bert(tmp_path)
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    with made.load_fails(r"model\.safetensors is not a readable safetensors file"):
        runtime.load(made.load(tmp_path))


def test_an_index_that_names_a_missing_shard(runtime: TorchRuntime, tmp_path: Path) -> None:
    made.save_bert(tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "a.safetensors")
    for name in ("b.safetensors", "../a.safetensors"):
        index = {"weight_map": {QUERY: name}}
        (tmp_path / "model.safetensors.index.json").write_bytes(msgspec.json.encode(index))
        with made.load_fails(f"names '{name}', which is not in the folder"):
            runtime.load(made.load(tmp_path))


def test_an_empty_folder(runtime: TorchRuntime, tmp_path: Path) -> None:
    with made.load_fails(r"config\.json cannot be read"):
        runtime.load(made.load(tmp_path))
    made.save_bert(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with made.load_fails(r"has no model\.safetensors"):
        runtime.load(made.load(tmp_path))


@pytest.mark.parametrize(
    ("stored", "half"),
    [
        (torch.float32, torch.float16),
        (torch.float16, torch.float16),
        (torch.bfloat16, torch.bfloat16),
    ],
)
def test_half_precision_follows_the_file(
    tmp_path: Path, stored: torch.dtype, half: torch.dtype
) -> None:
    made.save_bert(tmp_path).to(stored).save_pretrained(tmp_path)
    assert Weights(tmp_path, str).half_dtype() == half


def _misspelt(name: str) -> str:
    return name.replace("query.weight", "qeury.weight") if name == QUERY else name


def _rewrite(
    folder: Path, change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]
) -> None:
    path = folder / "model.safetensors"
    tensors = load_file(path)
    save_file(change({name: tensor.clone() for name, tensor in tensors.items()}), path)
