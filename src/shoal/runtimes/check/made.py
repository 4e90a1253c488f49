"""Tiny models with random weights, as Hugging Face libraries save them, made with numpy alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from shoal.catalog.convert.tensors import Tensor, stored
from shoal.catalog.convert.writer import write

#: Width of what they compute, ids that they know, and tokens that they take.
DIM, VOCABULARY, MAX_TOKENS = 8, 200, 256

Shapes = Iterator[tuple[str, tuple[int, ...]]]


def bert(folder: Path, layers: int, inner: int) -> None:
    """An encoder. `inner`: of the networks between its attentions, three-quarters of all weights."""
    config = {
        "model_type": "bert",
        "architectures": ["BertModel"],
        "type_vocab_size": 2,
        "layer_norm_eps": 1e-12,
        "hidden_act": "gelu",
    }
    _save(folder, config | _sizes(layers, inner), _of_bert(layers, inner))


def llama(folder: Path, layers: int, inner: int) -> None:
    """A language model."""
    config = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "tie_word_embeddings": True,
    }
    _save(folder, config | _sizes(layers, inner), _of_llama(layers, inner))


def _sizes(layers: int, inner: int) -> dict[str, Any]:
    return {
        "vocab_size": VOCABULARY,
        "hidden_size": DIM,
        "num_hidden_layers": layers,
        "num_attention_heads": 2,
        "intermediate_size": inner,
        "max_position_embeddings": MAX_TOKENS,
    }


def _save(folder: Path, config: Mapping[str, Any], shapes: Shapes) -> None:
    folder.mkdir()
    (folder / "config.json").write_bytes(msgspec.json.encode(config))
    random = np.random.default_rng(7)
    tensors: dict[str, Tensor] = {
        name: stored(random.standard_normal(shape, np.float32)) for name, shape in shapes
    }
    write(folder / "model.safetensors", tensors, "float32", lambda *_: None)


def _of_bert(layers: int, inner: int) -> Shapes:
    words = {"word": VOCABULARY, "position": MAX_TOKENS, "token_type": 2}
    for name, rows in words.items():
        yield f"embeddings.{name}_embeddings.weight", (rows, DIM)
    yield from _affine("embeddings.LayerNorm", (DIM,))
    for layer in (f"encoder.layer.{number}" for number in range(layers)):
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            yield from _affine(f"{layer}.attention.{part}", (DIM, DIM))
        yield from _affine(f"{layer}.attention.output.LayerNorm", (DIM,))
        yield from _affine(f"{layer}.intermediate.dense", (inner, DIM))
        yield from _affine(f"{layer}.output.dense", (DIM, inner))
        yield from _affine(f"{layer}.output.LayerNorm", (DIM,))


def _affine(name: str, shape: tuple[int, ...]) -> Shapes:
    yield f"{name}.weight", shape
    yield f"{name}.bias", shape[:1]


def _of_llama(layers: int, inner: int) -> Shapes:
    yield "model.embed_tokens.weight", (VOCABULARY, DIM)
    yield "model.norm.weight", (DIM,)
    for layer in (f"model.layers.{number}" for number in range(layers)):
        for part in "qkvo":
            yield f"{layer}.self_attn.{part}_proj.weight", (DIM, DIM)
        yield f"{layer}.mlp.gate_proj.weight", (inner, DIM)
        yield f"{layer}.mlp.up_proj.weight", (inner, DIM)
        yield f"{layer}.mlp.down_proj.weight", (DIM, inner)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            yield f"{layer}.{norm}.weight", (DIM,)
