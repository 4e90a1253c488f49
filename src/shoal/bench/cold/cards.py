"""The models of the cold-start benchmark: fake ones as cards, and a large real one with random weights.

The random BERT is as slow to load as a real one of its size; what it computes means nothing. It uses
the tokenizer of the catalog's MiniLM.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

#: Items run one after the other and take 50 ms each: one worker answers 20 a second.
ITEM_S = 0.05
BASE_S = 0.01


def fake(name: str, *, item_s: float = 0.001, base_s: float = BASE_S, **options: Any) -> str:
    """A card of the fake runtime; `options` are those of `FakeOptions`."""
    given = msgspec.json.encode(
        {"inputs": "text", "base_s": base_s, "item_s": item_s, **options}
    ).decode()
    return f"""\
name: {name}
source: {{dir: .}}
family: fake
tasks:
  encode: {{head: dense, dim: 8}}
max_tokens: 512
profiles:
  default:
    runtime: fake
    options: {given}
    cost: {{base_s: {base_s}, token_s: 0.0, item_s: {item_s}}}
"""


def write_bert(name: str, cards: Path, tokenizer: Path, layers: int, hidden: int) -> None:
    """A BERT with random weights, float32, in a folder beside its card."""
    from safetensors.numpy import save_file

    folder = cards / f"{name}-files"
    folder.mkdir()
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
    (cards / f"{name}.yaml").write_text(f"""\
name: {name}
source: {{dir: {folder.name}}}
family: bert
tasks:
  encode: {{head: dense, dim: {hidden}}}
max_tokens: 256
""")


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
