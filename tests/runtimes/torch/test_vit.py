"""The family against transformers' own forward pass, in float32, on random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import ViTConfig, ViTForImageClassification, ViTModel

from shoal.runtimes.torch.runtime import TorchRuntime
from tests.runtimes.torch import made, media
from tests.runtimes.torch.vision import SHAPE, hidden, load

CHANGES: list[dict[str, Any]] = [
    {},
    {"qkv_bias": False},
    {"hidden_act": "gelu_new"},
    {"patch_size": 5},
    {"patch_size": 16, "num_hidden_layers": 1},
]


@pytest.mark.parametrize("change", CHANGES, ids=str)
@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_equals_transformers(
    runtime: TorchRuntime, tmp_path: Path, change: dict[str, Any], pooling: str
) -> None:
    shape = SHAPE | change
    model = media.save(tmp_path, ViTModel(ViTConfig(**shape), add_pooling_layer=False))
    squares = (16 // shape["patch_size"]) ** 2
    runtime.load(load(tmp_path, heads={"dense": {"pooling": pooling}}, max_tokens=squares + 1))
    items = media.images(5)
    states = hidden(model, items)
    theirs = states[:, 0] if pooling == "cls" else states.mean(1)
    done = media.run(runtime, items)
    media.close(media.rows(done), theirs)
    assert done.computed_tokens == 5 * (squares + 1)


def test_labels_of_a_classifier(runtime: TorchRuntime, tmp_path: Path) -> None:
    model = media.save(
        tmp_path, ViTForImageClassification(ViTConfig(**(SHAPE | {"num_labels": 7})))
    )
    runtime.load(load(tmp_path, heads={"extract": {"head": "image-labels"}}))
    items = media.images(3)
    with torch.inference_mode():
        theirs = model(pixel_values=media.pixel_values(items)).logits
    media.close(media.rows(media.run(runtime, items, "extract"), "extract"), theirs)


def test_an_image_is_the_same_in_any_batch(runtime: TorchRuntime, tmp_path: Path) -> None:
    media.save(tmp_path, ViTModel(ViTConfig(**SHAPE)))
    runtime.load(load(tmp_path))
    items = media.images(300)  # 300 * 17 rows are several passes
    together = media.rows(media.run(runtime, items))
    for place in (0, 119, 120, 299):
        alone = media.rows(media.run(runtime, [items[place]]))
        np.testing.assert_allclose(alone[0], together[place], atol=1e-5)


def test_a_wrong_item_fails_alone(runtime: TorchRuntime, tmp_path: Path) -> None:
    media.save(tmp_path, ViTModel(ViTConfig(**SHAPE)))
    runtime.load(load(tmp_path))
    good = media.images(2)
    wrong: list[media.Item] = [
        media.images(1, 20)[0],
        [1, 2],
        good[0].astype(np.float32),
        np.zeros((0, 16, 3), np.uint8),
    ]
    done = media.run(runtime, [good[0], *wrong, good[1]])
    assert sorted(done.failed) == [1, 2, 3, 4]
    assert "uint8 of shape [20, 20, 3], and the model takes images as uint8 of [16, 16, 3]" in (
        done.failed[1].message
    )
    assert "takes none" in done.failed[2].message
    assert "float32" in done.failed[3].message
    assert "no tokens" in done.failed[4].message
    alone = media.rows(media.run(runtime, list(good)))
    np.testing.assert_allclose(made.vectors(done)[[0, 5]], alone, atol=1e-5)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_is_near(runtime: TorchRuntime, tmp_path: Path, dtype: str) -> None:
    model = media.save(tmp_path, ViTModel(ViTConfig(**SHAPE)))
    runtime.load(load(tmp_path, dtype=dtype))
    items = media.images(4)
    theirs = np.asarray(hidden(model, items)[:, 0])
    assert made.cosines(media.rows(media.run(runtime, items)), theirs).min() > 0.998


def test_a_processor_of_another_size_is_refused(runtime: TorchRuntime, tmp_path: Path) -> None:
    media.save(tmp_path, ViTModel(ViTConfig(**SHAPE)), size=20)
    with made.load_fails(r"gives \(20, 20\) pixels, and the model takes \(16, 16\)"):
        runtime.load(load(tmp_path))
