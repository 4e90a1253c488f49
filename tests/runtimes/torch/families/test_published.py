"""Nomic BERT and GTE as their publishers store them, for code of their own.

`transformers` computes these too, but neither reads those configs nor stretches positions as they
say. Its models are the reference, with angles by the formulas of the publishers' code:
``NomicBertDynamicNTKRotaryEmbedding`` of nomic-ai/nomic-bert-2048 and ``NTKScalingRotaryEmbedding``
of Alibaba-NLP/new-impl.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from shoal.runtimes.torch.runtime import TorchRuntime
from tests.runtimes.torch import made
from tests.runtimes.torch.families.rows import ROWS

NOMIC: dict[str, Any] = {
    "model_type": "nomic_bert",
    "vocab_size": 101,
    "type_vocab_size": 2,
    "n_embd": 32,
    "n_inner": 64,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 64,
    "activation_function": "swiglu",
    "layer_norm_epsilon": 1e-12,
    "rotary_emb_base": 1000,
    "rotary_emb_fraction": 1.0,
    "rotary_emb_interleaved": False,
    "rotary_emb_scale_base": None,
    "rotary_scaling_factor": None,
    "max_trained_positions": 16,
    "prenorm": False,
    "causal": False,
    "qkv_proj_bias": False,
}
LENGTHS = [7, 1, 64, 16, 17, 20, 64, 33]


def test_nomic(runtime: TorchRuntime, tmp_path: Path) -> None:
    reference = ROWS["nomic"].make("encoder", tmp_path)
    made.replace_config(tmp_path, NOMIC)
    _check(runtime, "nomic", tmp_path, made.pooled(reference, made.random_items(LENGTHS), "mean"))


def test_nomic_stretched_by_the_length_of_an_item(runtime: TorchRuntime, tmp_path: Path) -> None:
    reference = ROWS["nomic"].make("encoder", tmp_path)
    made.replace_config(tmp_path, NOMIC | {"rotary_scaling_factor": 2.0})

    def turned(item: list[int]) -> made.Floats:
        base = 1000.0
        if len(item) > 16:
            base *= (2.0 * len(item) / 16 - 1.0) ** (8 / 6)
        reference.rotary_emb.inv_freq = 1 / base ** (torch.arange(0, 8, 2) / 8)
        return made.pooled(reference, [item], "mean")

    expected = np.concatenate([turned(item) for item in made.random_items(LENGTHS)])
    _check(runtime, "nomic", tmp_path, expected)


def test_nomic_with_the_head_that_it_was_trained_by(runtime: TorchRuntime, tmp_path: Path) -> None:
    ROWS["nomic"].make("masked-lm", tmp_path)
    stored = load_file(tmp_path / "model.safetensors")
    stored["cls.predictions.decoder.bias"] = stored.pop("cls.predictions.bias")
    own = {name.replace("nomic_bert.", "bert."): tensor for name, tensor in stored.items()}
    save_file(own, tmp_path / "model.safetensors")
    made.replace_config(tmp_path, NOMIC)
    heads: dict[str, dict[str, Any]] = {"splade": {}}
    assert runtime.load(made.load(tmp_path, family="nomic", heads=heads)).bytes > 0


@pytest.mark.parametrize("types", [0, 1, 2])
def test_gte(runtime: TorchRuntime, tmp_path: Path, types: int) -> None:
    """Base and every position stretched, https://kexue.fm/archives/9706 (6)."""
    reference = ROWS["gte"].make("encoder", tmp_path, type_vocab_size=types)
    own = {
        "model_type": "new",
        "rope_parameters": None,
        "rope_theta": 500.0,
        "rope_scaling": {"type": "ntk", "factor": 8.0},
        "layer_norm_type": "layer_norm",
        "position_embedding_type": "rope",
        "pack_qkv": True,
        "logn_attention_scale": False,
    }
    made.change_config(tmp_path, own)
    plain = 1 / (8.0 * 500.0) ** (torch.arange(0, 8, 2) / 8)
    reference.rotary_emb.inv_freq = plain / 8.0 ** (2 / 8)
    _check(runtime, "gte", tmp_path, made.pooled(reference, made.random_items(LENGTHS), "mean"))


def _check(runtime: TorchRuntime, family: str, folder: Path, expected: made.Floats) -> None:
    runtime.load(made.load(folder, family=family))
    ours = made.vectors(made.run(runtime, made.random_items(LENGTHS)))
    np.testing.assert_allclose(ours, expected, atol=5e-5)
