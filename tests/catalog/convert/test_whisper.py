"""A small Whisper of transformers, written as CTranslate2's converter writes it, and read back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from transformers import GenerationConfig, WhisperConfig, WhisperForConditionalGeneration

from shoal.catalog.convert.tensors import Found
from shoal.catalog.convert.whisper import read
from shoal.errors import SourceError

from .ct2_files import model as as_file

WORDS = 51864
SPECIAL = {"<|endoftext|>": 50256, "<|startoftranscript|>": 50257, "<|notimestamps|>": 50362}
SETTINGS = {"suppress_ids": [1, 2], "suppress_ids_begin": [220], "alignment_heads": [[0, 1]]}
TOKENIZER = {"added_tokens": [{"id": i, "content": text} for text, i in SPECIAL.items()]}
SHAPE: dict[str, Any] = {
    "vocab_size": WORDS,
    "d_model": 8,
    "encoder_layers": 2,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 16,
    "decoder_ffn_dim": 12,
    "num_mel_bins": 80,
    "max_source_positions": 10,
    "max_target_positions": 6,
}
Variables = dict[str, NDArray[Any]]


def whisper() -> WhisperForConditionalGeneration:
    torch.manual_seed(4)
    model = WhisperForConditionalGeneration(WhisperConfig(**SHAPE))
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter)
    return model


def variables(state: dict[str, torch.Tensor]) -> Variables:
    """As `WhisperLoader` of CTranslate2 lays them out."""
    own: Variables = {}

    def norm(name: str, at: str) -> None:
        own[f"{at}/gamma"] = state[f"{name}.weight"].numpy()
        own[f"{at}/beta"] = state[f"{name}.bias"].numpy()

    def linear(at: str, *names: str) -> None:
        weights = [state[f"{name}.weight"] for name in names]
        own[f"{at}/weight"] = torch.cat(weights).numpy()
        biases = [
            state.get(f"{n}.bias", torch.zeros(len(w))) for n, w in zip(names, weights, strict=True)
        ]
        own[f"{at}/bias"] = torch.cat(biases).numpy()

    linear("encoder/conv1", "model.encoder.conv1")
    linear("encoder/conv2", "model.encoder.conv2")
    own["decoder/embeddings/weight"] = state["model.decoder.embed_tokens.weight"].numpy()
    for side in ("encoder", "decoder"):
        top = f"model.{side}"
        own[f"{side}/num_heads"] = np.array(SHAPE[f"{side}_attention_heads"], np.int16)
        positions = state[f"{top}.embed_positions.weight"]
        own[f"{side}/position_encodings/encodings"] = positions.numpy()
        norm(f"{top}.layer_norm", f"{side}/layer_norm")
        for number in range(SHAPE[f"{side}_layers"]):
            name, at = f"{top}.layers.{number}", f"{side}/layer_{number}"
            norm(f"{name}.self_attn_layer_norm", f"{at}/self_attention/layer_norm")
            parts = [f"{name}.self_attn.{part}_proj" for part in "qkv"]
            linear(f"{at}/self_attention/linear_0", *parts)
            linear(f"{at}/self_attention/linear_1", f"{name}.self_attn.out_proj")
            if side == "decoder":
                norm(f"{name}.encoder_attn_layer_norm", f"{at}/attention/layer_norm")
                linear(f"{at}/attention/linear_0", f"{name}.encoder_attn.q_proj")
                parts = [f"{name}.encoder_attn.{part}_proj" for part in "kv"]
                linear(f"{at}/attention/linear_1", *parts)
                linear(f"{at}/attention/linear_2", f"{name}.encoder_attn.out_proj")
            norm(f"{name}.final_layer_norm", f"{at}/ffn/layer_norm")
            linear(f"{at}/ffn/linear_0", f"{name}.fc1")
            linear(f"{at}/ffn/linear_1", f"{name}.fc2")
    return own


def converted(folder: Path, own: Variables, spec: str = "WhisperSpec") -> Found:
    (folder / "model.bin").write_bytes(as_file(spec, own))
    (folder / "config.json").write_text(json.dumps(SETTINGS))
    (folder / "tokenizer.json").write_text(json.dumps(TOKENIZER))
    return read([folder / "model.bin"], folder)


def test_the_weights_come_back(tmp_path: Path) -> None:
    state = whisper().state_dict()
    expected = {name: each for name, each in state.items() if name != "proj_out.weight"}
    found = converted(tmp_path, variables(state))
    assert found.tensors.keys() == expected.keys()
    for name, weights in expected.items():
        np.testing.assert_array_equal(found.tensors[name].read(), weights.numpy())


def test_the_configuration_is_read_by_transformers(tmp_path: Path) -> None:
    found = converted(tmp_path, variables(whisper().state_dict()))
    assert found.config is not None
    (tmp_path / "config.json").write_text(json.dumps(found.config))
    config = WhisperConfig.from_pretrained(tmp_path)
    assert {key: getattr(config, key) for key in SHAPE} == SHAPE
    (tmp_path / "generation_config.json").write_bytes(found.files["generation_config.json"])
    rules: Any = GenerationConfig.from_pretrained(tmp_path)
    assert (rules.suppress_tokens, rules.begin_suppress_tokens) == ([1, 2], [220])
    assert (rules.eos_token_id, rules.decoder_start_token_id) == (50256, 50257)
    assert rules.no_timestamps_token_id == 50362
    assert json.loads(found.files["preprocessor_config.json"])["feature_size"] == 80


def test_what_is_no_english_whisper(tmp_path: Path) -> None:
    own = variables(whisper().state_dict())
    more = np.zeros((WORDS + 1, 8), np.float32)
    eights = own["encoder/conv1/weight"].astype(np.int8)
    without = {name: array for name, array in own.items() if name != "decoder/num_heads"}
    for wrong, spec, problem in (
        (own, "TransformerSpec", "it is a TransformerSpec"),
        ({**own, "decoder/embeddings/weight": more}, "WhisperSpec", "vocabulary is of 51865"),
        ({**own, "encoder/conv1/weight": eights}, "WhisperSpec", "weight' is quantized"),
        (without, "WhisperSpec", "decoder/num_heads"),
    ):
        with pytest.raises(SourceError, match=f"model.bin: not an English Whisper .*{problem}"):
            converted(tmp_path, wrong, spec)
