"""Language models as encoders: what their files may say beside what the table checks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import Qwen3ForCausalLM

from shoal.runtimes.torch.runtime import TorchRuntime
from tests.runtimes.torch import made
from tests.runtimes.torch.families.near_llama import NEAR_LLAMA
from tests.runtimes.torch.families.row import randomize
from tests.runtimes.torch.families.rows import ROWS

DECODERS = [row.family for row in NEAR_LLAMA if row.family != "gemma3"]


@pytest.mark.parametrize("tied", [True, False])
def test_the_encoder_of_a_language_model(runtime: TorchRuntime, tmp_path: Path, tied: bool) -> None:
    torch.manual_seed(11)
    config = ROWS["qwen3"].config(tie_word_embeddings=tied)
    model: Any = Qwen3ForCausalLM(config)
    randomize(model)
    model.save_pretrained(tmp_path)
    _check(runtime, "qwen3", tmp_path, model.model, made.random_items([60, 1, 17, 60]))


@pytest.mark.parametrize("family", DECODERS)
def test_files_of_before_transformers_5(runtime: TorchRuntime, tmp_path: Path, family: str) -> None:
    """The base and its stretching by their first names, as most published models have them."""
    stretched = {"rope_type": "linear", "rope_theta": 90.0, "factor": 3.0}
    reference = ROWS[family].make("encoder", tmp_path, rope_parameters=stretched)
    old = {"rope_theta": 90.0, "rope_scaling": {"type": "linear", "factor": 3.0}}
    made.change_config(tmp_path, {"rope_parameters": None} | old)
    _check(runtime, family, tmp_path, reference, made.random_items([60, 1, 17]))


def test_gemma_of_before_transformers_5(runtime: TorchRuntime, tmp_path: Path) -> None:
    """Bases, stretching and the pattern of layers by their first names."""
    reference = ROWS["gemma3"].make(
        "encoder",
        tmp_path,
        layer_types=["sliding_attention", "full_attention"] * 2,
        rope_parameters={
            "full_attention": {"rope_type": "linear", "rope_theta": 90.0, "factor": 3.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 40.0},
        },
    )
    old = {
        "layer_types": None,
        "sliding_window_pattern": 2,
        "rope_parameters": {},
        "rope_theta": 90.0,
        "rope_local_base_freq": 40.0,
        "rope_scaling": {"rope_type": "linear", "factor": 3.0},
    }
    made.change_config(tmp_path, old)
    _check(runtime, "gemma3", tmp_path, reference, made.random_items([60, 1, 17]))


def test_gemma_in_half_precision(runtime: TorchRuntime, tmp_path: Path) -> None:
    reference = ROWS["gemma3"].make("encoder", tmp_path)
    runtime.load(made.load(tmp_path, family="gemma3", dtype="bfloat16"))
    items = made.random_items([60, 1, 17, 33])
    ours = made.vectors(made.run(runtime, items))
    assert made.cosines(ours, made.pooled(reference, items, "mean")).min() > 0.998
    with made.load_fails("float16"):
        runtime.load(made.load(tmp_path, family="gemma3", dtype="float16"))


def test_items_of_many_windows(runtime: TorchRuntime, tmp_path: Path) -> None:
    reference = ROWS["mistral"].make(
        "encoder", tmp_path, max_position_embeddings=700, sliding_window=150
    )
    items = made.random_items([700, 149, 150, 1, 151, 300, 300])
    _check(runtime, "mistral", tmp_path, reference, items, max_tokens=700)


@pytest.mark.parametrize("family", DECODERS)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_is_near(
    runtime: TorchRuntime, tmp_path: Path, family: str, dtype: str
) -> None:
    reference = ROWS[family].make("encoder", tmp_path)
    runtime.load(made.load(tmp_path, family=family, dtype=dtype))
    items = made.random_items([60, 1, 17, 33])
    ours = made.vectors(made.run(runtime, items))
    assert made.cosines(ours, made.pooled(reference, items, "mean")).min() > 0.998


def _check(
    runtime: TorchRuntime,
    family: str,
    folder: Path,
    reference: Any,
    items: list[list[int]],
    max_tokens: int = 64,
) -> None:
    heads = {"dense": {"pooling": "last"}}
    runtime.load(made.load(folder, family=family, heads=heads, max_tokens=max_tokens))
    ours = made.vectors(made.run(runtime, items))
    np.testing.assert_allclose(ours, made.pooled(reference, items, "last"), atol=5e-5)
