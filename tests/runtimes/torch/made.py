"""Small random BERTs as transformers saves them, and batches as the worker sends them."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from transformers import BertConfig, BertModel

from shoal.errors import ModelLoadFailed
from shoal.runtimes.base import Runtime
from shoal.wire.arrays import from_wire, to_wire
from shoal.wire.socket import Done, Load, Run

Floats = NDArray[np.float32]
VOCABULARY = 101


def save_bert(folder: Path, kind: type[Any] = BertModel, **changes: Any) -> Any:
    """A model with random weights, saved as safetensors; `changes` go to its config."""
    torch.manual_seed(11)
    shape: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "max_position_embeddings": 64,
        "initializer_range": 0.3,
    }
    model = kind(BertConfig(**(shape | changes))).eval()
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter, std=0.1)
    model.save_pretrained(folder)
    return model


def load(folder: Path, **changes: Any) -> Load:
    fields: dict[str, Any] = {
        "model": "m",
        "path": str(folder),
        "family": "bert",
        "heads": {"dense": {"pooling": "mean"}},
        "max_tokens": 64,
    }
    return Load(**(fields | changes))


def run(runtime: Runtime, items: list[list[int]], model: str = "m") -> Done:
    tokens = np.array([token for item in items for token in item], np.int32)
    lengths = np.array([len(item) for item in items], np.int32)
    return runtime.run(Run(1, model, ["dense"], to_wire(tokens), to_wire(lengths)))


def vectors(done: Done) -> Floats:
    return from_wire(done.arrays["dense"])


def pooled(model: Any, items: list[list[int]], pooling: str) -> Floats:
    """What transformers says, one item at a time."""
    return np.stack([_pooled(model, item, pooling) for item in items])


def _pooled(model: Any, item: list[int], pooling: str) -> Floats:
    with torch.inference_mode():
        hidden = model(torch.tensor([item])).last_hidden_state[0]
    row = {"mean": hidden.mean(0), "cls": hidden[0], "last": hidden[-1]}[pooling]
    return np.asarray(row.numpy(), np.float32)


def random_items(lengths: list[int], seed: int = 3) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, VOCABULARY, n).tolist() for n in lengths]


def cosines(left: Floats, right: Floats) -> Floats:
    norms = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    return np.asarray((left * right).sum(1) / norms, np.float32)


def change_config(folder: Path, changes: dict[str, Any]) -> None:
    replace_config(folder, msgspec.json.decode((folder / "config.json").read_bytes()) | changes)


def replace_config(folder: Path, config: dict[str, Any]) -> None:
    (folder / "config.json").write_bytes(msgspec.json.encode(config))


def load_fails(match: str) -> AbstractContextManager[Any]:
    return pytest.raises(ModelLoadFailed, match=match)
