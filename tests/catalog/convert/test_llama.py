"""A small Llama of transformers, written as llama.cpp's converter writes it, and read back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from shoal.catalog.convert.llama import read
from shoal.errors import SourceError

from .gguf_files import gguf

HEADS, SHARED = 4, 2
TOKENS = ["<|end|>", "<|start|>", "a", "b", "1", "2", "Ġ", "ab", "Ġab"]
METADATA: dict[str, Any] = {
    "general.architecture": "llama",
    "llama.block_count": 2,
    "llama.context_length": 64,
    "llama.embedding_length": 32,
    "llama.feed_forward_length": 48,
    "llama.attention.head_count": HEADS,
    "llama.attention.head_count_kv": SHARED,
    "llama.attention.layer_norm_rms_epsilon": 1e-5,
    "llama.rope.freq_base": 100000.0,
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "smollm",
    "tokenizer.ggml.tokens": TOKENS,
    "tokenizer.ggml.token_type": [3, 3, *[1] * (len(TOKENS) - 2)],
    "tokenizer.ggml.merges": ["a b", "Ġ ab"],
    "tokenizer.ggml.eos_token_id": 0,
    "tokenizer.chat_template": "{{ messages }}",
}
OWN = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def llama(tied: bool) -> LlamaForCausalLM:
    torch.manual_seed(5)
    config = LlamaConfig(
        vocab_size=len(TOKENS),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=HEADS,
        num_key_value_heads=SHARED,
        tie_word_embeddings=tied,
    )
    return LlamaForCausalLM(config)


def rotated(weights: torch.Tensor, heads: int) -> torch.Tensor:
    """As `permute` of llama.cpp's converter."""
    return weights.view(heads, 2, -1, weights.shape[1]).transpose(1, 2).reshape(weights.shape)


def as_gguf(model: LlamaForCausalLM, tied: bool, **changes: Any) -> bytes:
    tensors = {}
    for name, weights in model.state_dict().items():
        if name == "lm_head.weight" and tied:
            continue
        path = name.removesuffix(".weight")
        own = OWN.get(path)
        if own is None:
            _, _, layer, part = path.split(".", 3)
            own = f"blk.{layer}.{OWN[part]}"
            if part in ("self_attn.q_proj", "self_attn.k_proj"):
                weights = rotated(weights, HEADS if "q_proj" in part else SHARED)
        tensors[f"{own}.weight"] = (0, tuple(weights.shape), weights.numpy().tobytes())
    return gguf(METADATA | changes, tensors)


def written(folder: Path, data: bytes) -> list[Path]:
    (folder / "model.gguf").write_bytes(data)
    return [folder / "model.gguf"]


@pytest.mark.parametrize("tied", [True, False])
def test_the_weights_come_back(tmp_path: Path, tied: bool) -> None:
    model = llama(tied)
    found = read(written(tmp_path, as_gguf(model, tied)), tmp_path)
    expected = {
        name: weights
        for name, weights in model.state_dict().items()
        if not (tied and name == "lm_head.weight")
    }
    assert found.tensors.keys() == expected.keys()
    for name, weights in expected.items():
        np.testing.assert_array_equal(found.tensors[name].read(), weights.numpy())


def test_the_configuration_is_read_by_transformers(tmp_path: Path) -> None:
    found = read(written(tmp_path, as_gguf(llama(True), True)), tmp_path)
    assert found.config is not None
    (tmp_path / "config.json").write_text(json.dumps(found.config))
    config = LlamaConfig.from_pretrained(tmp_path)
    assert (config.num_key_value_heads, config.rms_norm_eps) == (SHARED, 1e-5)
    assert (config.vocab_size, config.tie_word_embeddings) == (len(TOKENS), True)
    assert dict(config.rope_parameters or {})["rope_theta"] == 100000.0


def test_the_tokenizer(tmp_path: Path) -> None:
    found = read(written(tmp_path, as_gguf(llama(True), True)), tmp_path)
    assert found.files["chat_template.jinja"] == b"{{ messages }}"
    tokenizer = Tokenizer.from_str(found.files["tokenizer.json"].decode())
    encoded = tokenizer.encode("<|start|>ab ab12<|end|>")
    assert encoded.tokens == ["<|start|>", "ab", "Ġab", "1", "2", "<|end|>"]
    assert tokenizer.decode(encoded.ids, skip_special_tokens=False) == "<|start|>ab ab12<|end|>"


def test_what_tokens_are_for_is_read_by_transformers(tmp_path: Path) -> None:
    found = read(written(tmp_path, as_gguf(llama(True), True)), tmp_path)
    for name, content in found.files.items():
        (tmp_path / name).write_bytes(content)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    assert tokenizer.special_tokens_map == {"eos_token": "<|end|>"}
    assert tokenizer.model_max_length == 64
    told = [{"role": "user", "content": "ab"}]
    assert tokenizer.apply_chat_template(told, tokenize=False) == str(told)
    text = "ab , ab !<|end|>"
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == "ab  ab <|end|>"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"general.architecture": "gemma3"}, "its architecture is gemma3"),
        ({"tokenizer.ggml.model": "llama"}, "its tokenizer is llama, smollm; known are gpt2"),
        ({"tokenizer.ggml.add_bos_token": True}, "puts a token before every text"),
        ({"tokenizer.ggml.token_type": [1]}, "zip"),
    ],
)
def test_what_is_not_known(tmp_path: Path, changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(SourceError, match=f"model.gguf: not a Llama .*{problem}"):
        read(written(tmp_path, as_gguf(llama(True), True, **changes)), tmp_path)


def test_a_tensor_of_another_architecture(tmp_path: Path) -> None:
    data = as_gguf(llama(True), True).replace(b"blk.1.attn_norm", b"blk.1.attn_what")
    with pytest.raises(SourceError, match="attn_what"):
        read(written(tmp_path, data), tmp_path)
