"""Small random vision transformers, and what transformers sees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from shoal.wire.socket import Load
from tests.runtimes.torch import made, media

SHAPE: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "image_size": 16,
    "patch_size": 4,
    "layer_norm_eps": 1e-6,
}


def load(folder: Path, **changes: Any) -> Load:
    fields = {"family": "vit", "max_tokens": 17, "heads": {"dense": {"pooling": "cls"}}}
    return made.load(folder, **(fields | changes))


def hidden(model: Any, items: list[Any]) -> torch.Tensor:
    with torch.inference_mode():
        state: torch.Tensor = model(pixel_values=media.pixel_values(items)).last_hidden_state
    return state
