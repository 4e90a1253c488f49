"""CLIP and SigLIP against transformers' own features, in float32, on random weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shoal.runtimes.torch.runtime import TorchRuntime
from tests.runtimes.torch import made, media
from tests.runtimes.torch.towers import (
    END,
    VISION,
    clip,
    image_features,
    load,
    logits,
    siglip,
    text_features,
    texts,
)


@pytest.mark.parametrize(
    ("make", "text", "vision"),
    [
        (clip, {}, {}),
        (clip, {"hidden_act": "gelu"}, {"patch_size": 8, "hidden_act": "gelu"}),
        (clip, {"eos_token_id": 2, "vocab_size": END + 1}, {}),
        (siglip, {}, {}),
        (siglip, {"num_attention_heads": 2}, {"patch_size": 5, "num_attention_heads": 1}),
    ],
)
def test_texts_and_images_in_one_batch_equal_transformers(
    runtime: TorchRuntime, tmp_path: Path, make: Any, text: dict[str, Any], vision: dict[str, Any]
) -> None:
    model = make(tmp_path, text, **vision)
    runtime.load(load(tmp_path, make.__name__))
    words, pictures = texts(), media.images(4)
    items: list[media.Item] = [*words[:4], *pictures[:3], *words[4:], pictures[3]]
    done = media.run(runtime, items)
    ours = media.rows(done)
    media.close(np.delete(ours, [4, 5, 6, 12], 0), text_features(model, words))
    media.close(ours[[4, 5, 6, 12]], image_features(model, pictures))


@pytest.mark.parametrize("make", [clip, siglip])
def test_products_of_rows_are_the_logits_of_the_model(
    runtime: TorchRuntime, tmp_path: Path, make: Any
) -> None:
    model = make(tmp_path)
    runtime.load(load(tmp_path, make.__name__))
    words, pictures = [[1, *range(4, 13), END], [1, *range(20, 29), END]], media.images(3)
    theirs = logits(model, words, pictures)
    rows = media.rows(media.run(runtime, [*words, *pictures], "extract"), "extract")
    assert rows.shape[1] == (20 if make is clip else 32) + 1
    np.testing.assert_allclose(rows[2:] @ rows[:2].T, theirs, atol=1e-4, rtol=1e-4)


def test_filling_is_counted_as_computed(runtime: TorchRuntime, tmp_path: Path) -> None:
    siglip(tmp_path)
    runtime.load(load(tmp_path, "siglip"))
    assert media.run(runtime, texts(3)).computed_tokens == 36


def test_the_tokenizer_says_what_fills(runtime: TorchRuntime, tmp_path: Path) -> None:
    """SigLIP 2's config leaves it at the default, which its tokenizer does not use."""
    model = siglip(tmp_path, {"pad_token_id": 1})
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"pad_token": "<pad>"}))
    added = [{"id": 0, "content": "<eos>"}, {"id": 3, "content": "<pad>"}]
    (tmp_path / "tokenizer.json").write_text(json.dumps({"added_tokens": added, "model": {}}))
    runtime.load(load(tmp_path, "siglip"))
    media.close(media.rows(media.run(runtime, texts())), text_features(model, texts()))


def test_a_text_too_long_and_an_image_too_large_fail_alone(
    runtime: TorchRuntime, tmp_path: Path
) -> None:
    for make in (clip, siglip):
        model = make(tmp_path)
        runtime.load(load(tmp_path, make.__name__))
        items: list[media.Item] = [[7] * 13, texts(1)[0], media.images(1, 20)[0]]
        done = media.run(runtime, items)
        assert sorted(done.failed) == [0, 2]
        media.close(made.vectors(done)[1:2], text_features(model, texts(1)))


def test_configs_that_compute_otherwise_are_refused(runtime: TorchRuntime, tmp_path: Path) -> None:
    siglip(tmp_path)
    made.change_config(tmp_path, {"vision_config": VISION | {"vision_use_head": False}})
    with made.load_fails(r"config\.json.*vision_use_head"):
        runtime.load(load(tmp_path, "siglip"))
    made.change_config(tmp_path, {"vision_config": VISION | {"hidden_size": 28}})
    with made.load_fails("texts end with 32 numbers and images with 28"):
        runtime.load(load(tmp_path, "siglip"))
