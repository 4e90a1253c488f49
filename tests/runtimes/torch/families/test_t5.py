"""What T5 checkpoints hold beside the encoder, and where its numbers end."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import T5Config, T5ForConditionalGeneration

from shoal.runtimes.torch.runtime import TorchRuntime
from tests.runtimes.torch import made
from tests.runtimes.torch.families.t5_row import T5, T5_SHAPE

ITEMS = made.random_items([64, 1, 7, 7])


def test_the_encoder_of_a_whole_model(runtime: TorchRuntime, tmp_path: Path) -> None:
    torch.manual_seed(11)
    model = T5ForConditionalGeneration(T5Config(**T5_SHAPE))
    model.train(False)
    model.save_pretrained(tmp_path)
    runtime.load(made.load(tmp_path, family="t5"))
    ours = made.vectors(made.run(runtime, ITEMS))
    np.testing.assert_allclose(ours, made.pooled(model.encoder, ITEMS, "mean"), atol=2e-5)


@pytest.mark.parametrize("same", [True, False])
def test_words_stored_twice_must_be_the_same(
    runtime: TorchRuntime, tmp_path: Path, same: bool
) -> None:
    model = T5.make("encoder", tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    words = tensors["shared.weight"]
    tensors["encoder.embed_tokens.weight"] = words.clone() if same else words + 1
    save_file(tensors, tmp_path / "model.safetensors")
    if not same:
        with made.load_fails("embed_tokens.weight and .* should be the same|shared.weight and"):
            runtime.load(made.load(tmp_path, family="t5"))
        return
    runtime.load(made.load(tmp_path, family="t5"))
    ours = made.vectors(made.run(runtime, ITEMS))
    np.testing.assert_allclose(ours, made.pooled(model, ITEMS, "mean"), atol=2e-5)


def test_half_precision(runtime: TorchRuntime, tmp_path: Path) -> None:
    model = T5.make("encoder", tmp_path)
    with made.load_fails("'t5' leaves the range of float16; use auto, float32 or bfloat16"):
        runtime.load(made.load(tmp_path, family="t5", dtype="float16"))
    runtime.load(made.load(tmp_path, family="t5", dtype="bfloat16"))
    ours = made.vectors(made.run(runtime, ITEMS))
    assert made.cosines(ours, made.pooled(model, ITEMS, "mean")).min() > 0.999


def test_items_are_as_long_as_the_weights_were_trained_with(
    runtime: TorchRuntime, tmp_path: Path
) -> None:
    T5.make("encoder", tmp_path, n_positions=80)
    with made.load_fails("max_tokens is 81, but the model's positions allow 1 to 80"):
        runtime.load(made.load(tmp_path, family="t5", max_tokens=81))
    runtime.load(made.load(tmp_path, family="t5", max_tokens=80))
