"""How well texts and images match, as the model that was trained on both puts it.

A row an item, one number wider than its vector: the product of a text's row and an image's is the
model's own logit of the two, ``scale * cosine + bias``. So any text may be a label of any image, and
neither is computed twice.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from shoal.errors import ModelLoadFailed
from shoal.runtimes.torch.heads.base import Ground, Head, HeadOutput
from shoal.runtimes.torch.packed import Packed


def image_text(_: dict[str, Any], ground: Ground) -> Head:
    """Rows [items, width + 1]."""
    layout = ground.layout.similarity
    if layout is None:
        raise ModelLoadFailed("head 'image-text' needs towers of texts and of images")
    layers = ground.layers
    scale = layers.tensor(layout.scale).float().exp().reshape(1)
    bias = layers.tensor(layout.bias).float().reshape(1) if layout.bias else 0 * scale

    def compute(hidden: Tensor, packed: Packed) -> HeadOutput:
        rows = torch.nn.functional.normalize(hidden.float())
        one = torch.ones_like(rows[:, :1])
        if packed.media is None:
            return HeadOutput(torch.cat([rows, one], 1))
        return HeadOutput(torch.cat([rows * scale, one * bias], 1))

    return Head(compute)
