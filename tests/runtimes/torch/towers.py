"""Small random CLIPs and SigLIPs, texts for them, and what transformers says of both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import CLIPConfig, CLIPModel, SiglipConfig, SiglipModel

from shoal.wire.socket import Load
from tests.runtimes.torch import made, media

END = 60
SIDE = {"num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 40}
TEXT: dict[str, Any] = SIDE | {"hidden_size": 24, "vocab_size": 64, "max_position_embeddings": 12}
VISION: dict[str, Any] = SIDE | {"hidden_size": 32, "image_size": 16, "patch_size": 4}


def clip(folder: Path, text: dict[str, Any] | None = None, **vision: Any) -> Any:
    text = TEXT | {"eos_token_id": END, "bos_token_id": 1, "pad_token_id": 0} | (text or {})
    config = CLIPConfig(text_config=text, vision_config=VISION | vision, projection_dim=20)
    return media.save(folder, CLIPModel(config))


def siglip(folder: Path, text: dict[str, Any] | None = None, **vision: Any) -> Any:
    text = TEXT | {"hidden_size": 32, "pad_token_id": 3} | (text or {})
    config = SiglipConfig(text_config=text, vision_config=VISION | vision)
    return media.save(
        folder, SiglipModel(config), do_center_crop=False, size={"height": 16, "width": 16}
    )


def load(folder: Path, family: str, **changes: Any) -> Load:
    fields: dict[str, Any] = {"heads": {"dense": {}, "extract": {"head": "image-text"}}}
    return made.load(folder, family=family, max_tokens=12, **(fields | changes))


def texts(count: int = 9) -> list[list[int]]:
    """Of every length, with an end token; one has a second one inside."""
    rng = np.random.default_rng(8)
    items = [[1, *rng.integers(4, END, n % 10 + 1).tolist(), END] for n in range(9)]
    items[5][2] = END
    return items[:count]


def text_features(model: Any, items: list[list[int]]) -> torch.Tensor:
    """One at a time; SigLIP's filled up as its tokenizer does."""
    rows = []
    for item in items:
        with torch.inference_mode():
            ids = torch.tensor([_filled(model, item)])
            rows.append(model.get_text_features(ids).pooler_output[0])
    return torch.stack(rows)


def _filled(model: Any, item: list[int]) -> list[int]:
    return item + [3] * (12 - len(item)) if isinstance(model, SiglipModel) else item


def image_features(model: Any, items: list[Any]) -> torch.Tensor:
    with torch.inference_mode():
        features: torch.Tensor = model.get_image_features(media.pixel_values(items)).pooler_output
    return features


def logits(model: Any, items: list[list[int]], pictures: list[Any]) -> torch.Tensor:
    """[images, texts], of both towers together."""
    with torch.inference_mode():
        rows = [
            model(torch.tensor([_filled(model, ids)]), media.pixel_values(pictures))
            for ids in items
        ]
    return torch.cat([row.logits_per_image for row in rows], 1)
