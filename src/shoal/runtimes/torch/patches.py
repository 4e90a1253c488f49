"""How images enter a vision transformer: normalised, cut into squares, each one row."""

from __future__ import annotations

import torch
from torch import Tensor

from shoal.catalog.preprocessing import ImageProcessing
from shoal.errors import ModelLoadFailed
from shoal.runtimes.torch.layers import Layers
from shoal.runtimes.torch.media import Takes


class Normalise:
    """Bytes to what a model was trained on: uint8 [..., 3] -> float32, by channel."""

    def __init__(self, processing: ImageProcessing, device: torch.device) -> None:
        self._scale = torch.tensor(processing.scale, dtype=torch.float32, device=device)
        self._shift = torch.tensor(processing.shift, dtype=torch.float32, device=device)

    def __call__(self, images: Tensor) -> Tensor:
        return torch.addcmul(self._shift, images.float(), self._scale)


class Patches:
    """Squares of `size` pixels, row by row: uint8 [items, height, width, 3] -> [items, squares, hidden]."""

    def __init__(
        self, layers: Layers, name: str, size: int, processing: ImageProcessing, bias: bool = True
    ) -> None:
        self._normalise = Normalise(processing, layers.device)
        self._product = layers.patches(name, bias)
        self._size = size

    def __call__(self, images: Tensor) -> Tensor:
        items, height, width, channels = images.shape
        size = self._size
        down, across = height // size, width // size
        # What is left at the edges is dropped, as a convolution without padding drops it.
        whole = self._normalise(images[:, : down * size, : across * size])
        squares = whole.view(items, down, size, across, size, channels).transpose(2, 3)
        rows = squares.reshape(items * down * across, size * size * channels)
        return self._product(rows).view(items, down * across, -1)


def takes_squares(size: int, patch: int, more: int) -> Takes:
    """Square images of `size` pixels a side, in squares of `patch`, and `more` rows besides."""
    return Takes("images", "uint8", (size, size, 3), (size // patch) ** 2 + more)


def check_shape(processing: ImageProcessing, size: int, layers: Layers) -> None:
    """Raises `ModelLoadFailed` where the folder's processor makes images of another size."""
    if processing.shape != (size, size):
        raise ModelLoadFailed(
            f"{layers.folder}: the image processor gives {processing.shape} pixels, and the model "
            f"takes {(size, size)}; correct `size` or `crop_size`"
        )
