"""Small random models that read images among tokens and go on with texts, and prompts for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import (
    Idefics3Config,
    Idefics3ForConditionalGeneration,
    SmolVLMConfig,
    SmolVLMForConditionalGeneration,
)

from shoal.wire.arrays import to_wire
from shoal.wire.socket import Generate
from tests.runtimes.torch import media, pages
from tests.runtimes.torch.generating import texts

#: The token that stands for a part of an image, and how many an image has.
PLACE, TOKENS = 90, 4

#: A prompt, and its images, [images, 16, 16, 3].
Prompt = tuple[list[int], NDArray[np.uint8]]

_KINDS: dict[str, tuple[Any, Any]] = {
    "idefics3": (Idefics3Config, Idefics3ForConditionalGeneration),
    "smolvlm": (SmolVLMConfig, SmolVLMForConditionalGeneration),
}


def make(
    folder: Path, kind: str = "smolvlm", text: dict[str, Any] | None = None, **changes: Any
) -> Any:
    """Four squares become a token, four tokens an image of 16 pixels a side."""
    config, model = _KINDS[kind]
    vision = {key: value for key, value in pages.VISION.items() if key != "vision_use_head"}
    words = pages.TEXT | {"model_type": "llama", "max_position_embeddings": 700, "pad_token_id": 0}
    fields: dict[str, Any] = {
        "vision_config": vision | {"model_type": f"{kind}_vision"},
        "text_config": words | (text or {}),
        "image_token_id": PLACE,
        "scale_factor": 2,
    }
    return media.save(
        folder,
        model(config(**(fields | changes))),
        size={"longest_edge": 64},
        max_image_size={"longest_edge": 16},
    )


def prompt(images: int, seed: int = 5, around: int = 3) -> Prompt:
    """So many images, tokens before, between and behind them."""
    rng = np.random.default_rng(seed)
    ids: list[int] = rng.integers(3, PLACE, around).tolist()
    for _ in range(images):
        ids += [PLACE] * TOKENS + rng.integers(3, PLACE, around).tolist()
    return ids, np.stack(media.images(images, seed=seed))


def asked(batch: int, given: Prompt, new: int, **sampling: Any) -> Generate:
    ids, images = given
    plain = texts.asked(batch, ids, new, **sampling)
    return Generate(batch, "m", plain.tokens, plain.sampling, inputs=[to_wire(images)])


def greedy(model: Any, given: Prompt, new: int) -> list[int]:
    """What transformers makes of a prompt, by itself."""
    ids, images = given
    return texts.greedy(model, ids, new, pixel_values=media.pixel_values([*images])[None])


def logits(model: Any, given: Prompt) -> torch.Tensor:
    """Of what follows each token, [tokens, vocabulary]."""
    ids, images = given
    with torch.inference_mode():
        said: torch.Tensor = model(
            input_ids=torch.tensor([ids]), pixel_values=media.pixel_values([*images])[None]
        ).logits[0]
    return said
