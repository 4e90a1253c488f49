"""Large images in squares that a model sees one by one, and whole beside them.

Sizes are those of `Idefics3ImageProcessor` in transformers: an image is first made as long as the
model reads, then a multiple of the square on both sides; the whole is made of that.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from PIL import Image

from shoal.catalog.preprocessing import ImageProcessing
from shoal.worker.media.images import Pixels, resized


class Tiles(NamedTuple):
    """`pixels`: [images, side, side, 3], squares row by row, then the whole; `rows`, `columns`: of the
    squares, 0 where there is only the whole."""

    pixels: Pixels
    rows: int
    columns: int


def tiled(image: Image.Image, processing: ImageProcessing, max_pixels: int) -> Tiles:
    """The squares of an image. Raises `InvalidItem` where its shape makes it larger than `max_pixels`."""
    side = processing.tile
    assert side is not None, "the model sees squares"
    image = resized(image, processing, max_pixels)
    if not processing.split:
        return Tiles(_whole(image, side, processing)[None], 0, 0)
    width, height = _multiples(image.width, image.height, side)
    image = image.resize((width, height), Image.Resampling(processing.resample))
    rows, columns = height // side, width // side
    if rows == columns == 1:
        return Tiles(np.asarray(image, np.uint8)[None], 0, 0)
    grid = np.asarray(image, np.uint8).reshape(rows, side, columns, side, 3).swapaxes(1, 2)
    squares = grid.reshape(rows * columns, side, side, 3)
    whole = _whole(image, side, processing)
    return Tiles(np.concatenate([squares, whole[None]]), rows, columns)


def _whole(image: Image.Image, side: int, processing: ImageProcessing) -> Pixels:
    return np.asarray(image.resize((side, side), Image.Resampling(processing.resample)), np.uint8)


def _multiples(width: int, height: int, side: int) -> tuple[int, int]:
    """The longer edge up to a multiple, and the other one in proportion, then up to one as well."""
    shape = width / height
    if width >= height:
        width = math.ceil(width / side) * side
        return width, math.ceil(int(width / shape) / side) * side
    height = math.ceil(height / side) * side
    return math.ceil(int(height * shape) / side) * side, height
