"""The family against transformers' own forward pass, in float32, on random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from shoal.runtimes.torch.families.efficientnet import _INSIDE, _OUTSIDE
from shoal.runtimes.torch.runtime import TorchRuntime
from tests.runtimes.torch import made, media
from tests.runtimes.torch.efficientnet import SIZE, load, reference, save


def check(runtime: TorchRuntime, model: Any, size: int = SIZE) -> None:
    items = media.images(11, size)  # two passes
    logits, pooled = reference(model, items)
    media.close(media.rows(media.run(runtime, items, "extract"), "extract"), logits, atol=1e-4)
    media.close(media.rows(media.run(runtime, items)), pooled, atol=1e-4)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"width_coefficient": 1.1, "depth_coefficient": 0.9, "hidden_dim": 1408},
        {"squeeze_expansion_ratio": 0.5, "batch_norm_eps": 0.01},
        {"image_size": 72, "depthwise_padding": [9]},
    ],
    ids=str,
)
def test_equals_transformers(runtime: TorchRuntime, tmp_path: Path, change: dict[str, Any]) -> None:
    model = save(tmp_path, **change)
    runtime.load(load(tmp_path))
    check(runtime, model, change.get("image_size", SIZE))


def test_other_names_of_the_same_tensors(runtime: TorchRuntime, tmp_path: Path) -> None:
    """As EfficientNet-PyTorch saves them."""
    model = save(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    renamed = {_stored(name): tensor for name, tensor in tensors.items()}
    assert all(name.startswith("_") for name in renamed)
    save_file(renamed, tmp_path / "model.safetensors")
    runtime.load(load(tmp_path))
    check(runtime, model)


def _stored(name: str) -> str:
    part, _, what = name.removeprefix("efficientnet.").rpartition(".")
    outside = {ours: theirs for theirs, ours in _OUTSIDE.items()}
    inside = {ours: theirs for theirs, ours in _INSIDE.items()}
    if part in outside:
        return f"{outside[part]}.{what}"
    number, _, within = part.removeprefix("encoder.blocks.").partition(".")
    return f"_blocks.{number}.{inside[within]}.{what}"


def test_a_lite_weighs_no_channels(runtime: TorchRuntime, tmp_path: Path) -> None:
    model = save(tmp_path, hidden_act="relu6")
    for block in model.efficientnet.encoder.blocks:
        block.squeeze_excite = torch.nn.Identity()
    model.save_pretrained(tmp_path)
    made.change_config(tmp_path, {"squeeze_expansion_ratio": 0})
    runtime.load(load(tmp_path))
    check(runtime, model)


def test_half_precision_is_near(runtime: TorchRuntime, tmp_path: Path) -> None:
    model = save(tmp_path)
    runtime.load(load(tmp_path, dtype="bfloat16"))
    items = media.images(3, SIZE)
    with torch.inference_mode():
        theirs = np.asarray(model.efficientnet(media.pixel_values(items)).pooler_output)
    assert made.cosines(media.rows(media.run(runtime, items)), theirs).min() > 0.99


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"pooling_type": "max"}, "pooling_type"),
        ({"hidden_act": "gelu"}, "hidden_act"),
        ({"hidden_dim": 600}, "tensors of another shape"),
    ],
)
def test_a_config_that_computes_otherwise_is_refused(
    runtime: TorchRuntime, tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    save(tmp_path)
    made.change_config(tmp_path, change)
    with made.load_fails(said):
        runtime.load(load(tmp_path))
