"""Small random EfficientNets, and what transformers sees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from transformers import EfficientNetConfig, EfficientNetForImageClassification

from shoal.wire.socket import Load
from tests.runtimes.torch import made, media

SIZE = 64
SHAPE: dict[str, Any] = {
    "image_size": SIZE,
    "width_coefficient": 0.5,
    "depth_coefficient": 0.4,
    "hidden_dim": 640,
    "num_labels": 5,
}
HEADS = {"extract": {"head": "image-labels"}, "dense": {"pooling": "mean"}}


def save(folder: Path, **changes: Any) -> Any:
    config: Any = EfficientNetConfig(**(SHAPE | changes))
    model: Any = EfficientNetForImageClassification(config)
    torch.manual_seed(9)
    for name, tensor in model.state_dict().items():
        if name.endswith("running_var"):
            torch.nn.init.uniform_(tensor, 0.5, 1.5)
        elif "norm" in name or "_bn" in name or name.endswith("bias"):
            if tensor.is_floating_point():
                torch.nn.init.normal_(tensor, mean=float(name.endswith("weight")), std=0.2)
        else:
            torch.nn.init.normal_(tensor, std=tensor[0].numel() ** -0.5)
    model.eval().save_pretrained(folder)
    size = {"height": config.image_size, "width": config.image_size}
    processor = {"size": size, "image_mean": media.MEAN, "image_std": media.STD}
    said = json.dumps(processor | {"include_top": False})
    (folder / "preprocessor_config.json").write_text(said)
    return model


def load(folder: Path, **changes: Any) -> Load:
    return made.load(folder, family="efficientnet", max_tokens=4, heads=HEADS, **changes)


def reference(model: Any, items: list[Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits, and the vectors that they are of."""
    with torch.inference_mode():
        pixels = media.pixel_values(items)
        return model(pixels).logits, model.efficientnet(pixels).pooler_output
