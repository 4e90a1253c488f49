"""A large BERT with random weights, for the cold-start benchmark.

It is as slow to load as a real one of its size; what it computes means nothing.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray


def write(name: str, folder: Path, tokenizer: Path, layers: int, hidden: int) -> str:
    """Write its files, float32, into `folder`; returns its card."""
    from safetensors.numpy import save_file

    shutil.copy(tokenizer, folder / "tokenizer.json")
    config = {
        "model_type": "bert",
        "vocab_size": 30522,
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": hidden // 64,
        "intermediate_size": 4 * hidden,
        "max_position_embeddings": 512,
    }
    (folder / "config.json").write_bytes(msgspec.json.encode(config))
    save_file(_weights(layers, hidden), folder / "model.safetensors")
    return f"""\
name: {name}
source: {{dir: {folder}}}
family: bert
tasks:
  encode: {{dense: {{dim: {hidden}}}}}
max_tokens: 256
"""


def _weights(layers: int, hidden: int) -> dict[str, NDArray[np.float32]]:
    rng = np.random.default_rng(3)

    def random(*shape: int) -> NDArray[np.float32]:
        return rng.standard_normal(shape, np.float32) * np.float32(0.02)

    tensors = {
        "embeddings.word_embeddings.weight": random(30522, hidden),
        "embeddings.position_embeddings.weight": random(512, hidden),
        "embeddings.token_type_embeddings.weight": random(2, hidden),
    }
    square, up, down = (
        random(hidden, hidden),
        random(4 * hidden, hidden),
        random(hidden, 4 * hidden),
    )
    parts = {f"attention.{part}": square for part in ("self.query", "self.key", "self.value")}
    parts |= {"attention.output.dense": square, "intermediate.dense": up, "output.dense": down}
    norms = ["embeddings.LayerNorm"]
    for layer in (f"encoder.layer.{number}" for number in range(layers)):
        for part, weight in parts.items():
            tensors[f"{layer}.{part}.weight"] = weight
            tensors[f"{layer}.{part}.bias"] = np.zeros(len(weight), np.float32)
        norms += [f"{layer}.attention.output.LayerNorm", f"{layer}.output.LayerNorm"]
    for norm in norms:
        tensors[f"{norm}.weight"] = np.ones(hidden, np.float32)
        tensors[f"{norm}.bias"] = np.zeros(hidden, np.float32)
    return tensors
