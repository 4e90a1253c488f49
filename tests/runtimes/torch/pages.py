"""Small random models of pages, items for them, and what transformers says of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import (
    ColModernVBertConfig,
    ColModernVBertForRetrieval,
    ColPaliConfig,
    ColPaliForRetrieval,
)

from shoal.wire.socket import Load
from tests.runtimes.torch import made, media

#: The token that stands for a part of a page.
PLACE = 90
SIDE = {"num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
VISION: dict[str, Any] = SIDE | {
    "model_type": "siglip_vision_model",
    "hidden_size": 32,
    "image_size": 16,
    "patch_size": 4,
    "vision_use_head": False,
}
TEXT: dict[str, Any] = SIDE | {
    "hidden_size": 40,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 101,
    "max_position_embeddings": 96,
}
DIM = 12
SQUARES = 16


def colpali(
    folder: Path,
    text: dict[str, Any] | None = None,
    place: int = PLACE,
    dim: int = DIM,
    **vision: Any,
) -> Any:
    config = ColPaliConfig(
        vlm_config={
            "model_type": "paligemma",
            "vision_config": VISION | vision,
            "text_config": TEXT | {"model_type": "gemma"} | (text or {}),
            "image_token_index": place,
            "projection_dim": 40,
            "hidden_size": 40,
            "vocab_size": 101,
        },
        embedding_dim=dim,
    )
    size = (VISION | vision)["image_size"]
    return media.save(
        folder,
        ColPaliForRetrieval(config),
        do_center_crop=False,
        size={"height": size, "width": size},
        image_seq_length=(size // (VISION | vision)["patch_size"]) ** 2,
    )


def colmodernvbert(
    folder: Path, text: dict[str, Any] | None = None, place: int = PLACE, **vision: Any
) -> Any:
    """Four squares become a token, four tokens an image."""
    special = dict.fromkeys(("pad", "bos", "eos", "cls", "sep"), 0)
    words = {key: TEXT[key] for key in (*SIDE, "hidden_size", "vocab_size")}
    config = ColModernVBertConfig(
        vlm_config={
            "model_type": "modernvbert",
            "vision_config": VISION | {"vision_use_head": True} | vision,
            "text_config": words
            | {"model_type": "modernbert", "num_hidden_layers": 4, "local_attention": 8}
            | {f"{name}_token_id": number for name, number in special.items()}
            | {"max_position_embeddings": 96}
            | (text or {}),
            "image_token_id": place,
            "pixel_shuffle_factor": 2,
        },
        embedding_dim=DIM,
    )
    return media.save(
        folder,
        ColModernVBertForRetrieval(config),
        size={"longest_edge": 64},
        max_image_size={"longest_edge": 16},
    )


def load(folder: Path, family: str, **changes: Any) -> Load:
    heads = {"multivector": {"head": "colbert", "projections": ["embedding_proj_layer"]}}
    fields: dict[str, Any] = {"heads": heads, "max_tokens": 96}
    return made.load(folder, family=family, **(fields | changes))


def texts(count: int = 9) -> list[list[int]]:
    """Of every length."""
    rng = np.random.default_rng(8)
    return [rng.integers(1, PLACE, 3 * n + 1).tolist() for n in range(count)]


def pages(count: int = 4) -> list[media.Item]:
    """Each an image before a prompt of its own length."""
    rng = np.random.default_rng(9)
    return [
        ([PLACE] * SQUARES + rng.integers(1, PLACE, n % 3 + 2).tolist(), image[None])
        for n, image in enumerate(media.images(count))
    ]


def tiled(count: int = 5) -> list[media.Item]:
    """Pages of one image and more, four tokens each, that others stand between."""
    rng = np.random.default_rng(10)
    made: list[media.Item] = []
    for n in range(count):
        ids = rng.integers(1, PLACE, 2).tolist()
        for _ in range(n + 1):
            ids += [PLACE] * 4 + rng.integers(1, PLACE, 1).tolist()
        made.append((ids, np.stack(media.images(n + 1, seed=n))))
    return made


def vectors(model: Any, items: list[media.Item]) -> list[torch.Tensor]:
    """Of each, asked alone."""
    return [_vectors(model, *(item if isinstance(item, tuple) else (item, None))) for item in items]


def _vectors(model: Any, ids: Any, images: Any) -> torch.Tensor:
    given: dict[str, Any] = {"input_ids": torch.tensor([ids])}
    if isinstance(model, ColPaliForRetrieval):
        # Of one type, as its processor says: so each sees all.
        given["token_type_ids"] = torch.zeros_like(given["input_ids"])
    if images is not None:
        given["pixel_values"] = media.pixel_values([*images])
    if images is not None and isinstance(model, ColModernVBertForRetrieval):
        given["pixel_values"] = given["pixel_values"][None]  # of one item
    with torch.inference_mode():
        said: torch.Tensor = model(**given).embeddings[0]
    return said
