"""Pictures drawn in the test, as the files that people send."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image


def picture(width: int = 61, height: int = 40, seed: int = 5) -> Image.Image:
    """Soft colours with edges, so that filters differ and JPEG stays near."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (5, 7, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)


def saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def pixels(image: Image.Image) -> NDArray[np.uint8]:
    return np.asarray(image, np.uint8)
