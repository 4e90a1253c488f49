"""How images enter a vision transformer: normalised, cut into squares, each square a row."""

from __future__ import annotations

import msgspec
import torch
from torch import Tensor

from shoal.catalog.preprocessing import ImageProcessing, image_processing
from shoal.errors import ModelLoadFailed
from shoal.runtimes.torch.layers import Layers
from shoal.runtimes.torch.media import Takes
from shoal.runtimes.torch.weights import Shape


class Squares(msgspec.Struct, frozen=True):
    """Images of `image` pixels a side, in squares of `patch`, each a row of `hidden`.

    Attributes:
        projection, positions: the names of their tensors, that of the first without ``.weight``.
        first: that of a row that comes before the squares, the class token; None: there is none.
        bias: whether the projection has one.
        flat: whether the tensors of rows have no axes besides.
    """

    image: int
    patch: int
    hidden: int
    projection: str
    positions: str
    first: str | None = None
    bias: bool = True
    flat: bool = True

    @property
    def rows(self) -> int:
        """Of one image."""
        return (self.image // self.patch) ** 2 + (self.first is not None)

    def takes(self) -> Takes:
        return Takes("images", "uint8", (self.image, self.image, 3), self.rows)

    def tensors(self) -> dict[str, Shape]:
        """Those named here, by shape."""
        hidden, patch = self.hidden, self.patch
        shapes: dict[str, Shape] = {
            f"{self.projection}.weight": (hidden, 3, patch, patch),
            self.positions: (self.rows, hidden) if self.flat else (1, self.rows, hidden),
        }
        if self.bias:
            shapes[f"{self.projection}.bias"] = (hidden,)
        if self.first is not None:
            shapes[self.first] = (hidden,) if self.flat else (1, 1, hidden)
        return shapes


class Normalise:
    """Bytes to what a model was trained on: uint8 [..., 3] -> float32, by channel."""

    def __init__(self, processing: ImageProcessing, device: torch.device) -> None:
        self._scale = torch.tensor(processing.scale, dtype=torch.float32, device=device)
        self._shift = torch.tensor(processing.shift, dtype=torch.float32, device=device)

    def __call__(self, images: Tensor) -> Tensor:
        return torch.addcmul(self._shift, images.float(), self._scale)


class Patches:
    """uint8 [items, height, width, 3] -> [items * rows, hidden], with positions, row by row."""

    def __init__(self, squares: Squares, layers: Layers, family: str) -> None:
        """Raises `ModelLoadFailed` where the folder's processor makes images of another size."""
        self._normalise = Normalise(processing_for(family, squares.image, layers), layers.device)
        self._product = layers.patches(squares.projection, squares.bias)
        self._patch = squares.patch
        self._positions = layers.tensor(squares.positions).view(squares.rows, squares.hidden)
        self._class: Tensor | None = None
        if squares.first is not None:
            token = layers.tensor(squares.first).view(1, squares.hidden)
            self._class = token + self._positions[:1]
            self._positions = self._positions[1:]

    def __call__(self, images: Tensor) -> Tensor:
        items, height, width, channels = images.shape
        patch = self._patch
        down, across = height // patch, width // patch
        # What is left at the edges is dropped, as a convolution without padding drops it.
        whole = self._normalise(images[:, : down * patch, : across * patch])
        squares = whole.view(items, down, patch, across, patch, channels).transpose(2, 3)
        pixels = squares.reshape(items * down * across, patch * patch * channels)
        rows = self._product(pixels).view(items, down * across, -1) + self._positions
        if self._class is not None:
            rows = torch.cat([self._class.expand(items, 1, -1), rows], 1)
        return rows.flatten(0, 1)


def processing_for(family: str, size: int, layers: Layers) -> ImageProcessing:
    """What the folder's processor does, which must end with `size` pixels a side.

    Raises `ModelLoadFailed` where it does not.
    """
    processing = image_processing(layers.folder, family)
    if processing.shape != (size, size):
        raise ModelLoadFailed(
            f"{layers.folder}: the image processor gives {processing.shape} pixels, and the model "
            f"takes {(size, size)}; correct `size` or `crop_size`"
        )
    return processing
