"""Pictures resized, cut out and laid out for PP-OCR's graphs, in numpy.

As OpenCV does it, whose results they were trained on: bilinear without a look at what lies between
the samples, and bicubic with a = -0.75.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]
Floats = NDArray[np.float32]

#: Of the bicubic kernel (Keys, 1981).
_A = -0.75


def resized(picture: Pixels, width: int, height: int) -> Pixels:
    """[height, width, 3], bilinear."""
    if picture.shape[:2] == (height, width):
        return picture
    above, below, down = _between(picture.shape[0], height)
    left, right, across = _between(picture.shape[1], width)
    rows = _mixed(picture[above], picture[below], down[:, None, None])
    whole = _mixed(rows[:, left], rows[:, right], across[None, :, None])
    return np.rint(whole).astype(np.uint8)


def _mixed(one: NDArray[np.generic], other: NDArray[np.generic], share: Floats) -> Floats:
    first = one.astype(np.float32)
    mixed: Floats = first + (other.astype(np.float32) - first) * share
    return mixed


def _between(have: int, want: int) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
    """Along one axis, of each sample: the two it lies between, and its distance from the first."""
    at = np.clip((np.arange(want) + 0.5) * (have / want) - 0.5, 0, have - 1)
    first = at.astype(np.int64)
    return first, np.minimum(first + 1, have - 1), (at - first).astype(np.float32)


def cut_out(picture: Pixels, box: Floats) -> tuple[Pixels, Floats]:
    """What is inside a box, [height, width, 3], and the corner where it begins first.

    box: [4, 2] float32, whole pixels, clockwise from the top left. What is higher than wide is taken
    for a line that climbs, and laid down.
    """
    across, down = box[[1, 2]] - box[[0, 3]], box[[3, 2]] - box[[0, 1]]
    width, height = (int(np.linalg.norm(edges, axis=1).max()) for edges in (across, down))
    (left, top), (right, bottom) = box[0], box[2]
    if np.array_equal(box, [[left, top], [right, top], [right, bottom], [left, bottom]]):
        crop = picture[int(top) : int(bottom), int(left) : int(right)]
    else:
        crop = _warped(picture, box, width, height)
    climbs = 2 * height >= 3 * width
    return (np.rot90(crop), np.roll(box, -1, 0)) if climbs else (crop, box)


def _warped(picture: Pixels, box: Floats, width: int, height: int) -> Pixels:
    """The perspective view of a box as a rectangle of this size, bicubic."""
    view = _perspective(
        np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float64), box
    )
    columns, rows = np.meshgrid(np.arange(width), np.arange(height))
    x, y, scale = np.tensordot(view, np.stack([columns, rows, np.ones_like(rows)]), 1)
    x, y = x / scale, y / scale
    left, top = np.floor(x).astype(np.int64), np.floor(y).astype(np.int64)
    across, down = _cubic(x - left), _cubic(y - top)
    whole = np.zeros((height, width, 3), np.float32)
    for i in range(4):
        line = np.clip(top + i - 1, 0, picture.shape[0] - 1)
        for j in range(4):
            column = np.clip(left + j - 1, 0, picture.shape[1] - 1)
            whole += picture[line, column] * (down[i] * across[j])[..., None]
    return np.rint(np.clip(whole, 0, 255)).astype(np.uint8)


def _perspective(points: NDArray[np.float64], targets: NDArray[np.floating]) -> NDArray[np.float64]:
    """The 3 x 3 matrix that takes four points to four others."""
    rows, right = [], []
    for (x, y), (u, v) in zip(points, targets, strict=True):
        rows += [[x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]]
        right += [u, v]
    return np.append(np.linalg.solve(np.array(rows), np.array(right)), 1.0).reshape(3, 3)


def _cubic(at: NDArray[np.float64]) -> Floats:
    """Weights [4, ...] of the samples at -1, 0, 1 and 2 for a place between 0 and 1."""
    far = [((_A * (d - 5)) * d + 8 * _A) * d - 4 * _A for d in (at + 1, 2 - at)]
    near = [((_A + 2) * d - (_A + 3)) * d * d + 1 for d in (at, 1 - at)]
    return np.stack([far[0], near[0], near[1], far[1]]).astype(np.float32)


def planes(picture: Pixels) -> Floats:
    """[3, height, width] from -1 to 1, blue first, as the graphs take them."""
    whole: Floats = picture[..., ::-1].transpose(2, 0, 1).astype(np.float32) / 127.5 - 1
    return whole


def strips(crops: list[Pixels], widths: list[int], columns: int, height: int) -> Floats:
    """[crops, 3, height, columns]: each made so high and as wide as `widths` says; gray follows."""
    laid = np.zeros((len(crops), 3, height, columns), np.float32)
    for place, crop, width in zip(laid, crops, widths, strict=True):
        place[..., :width] = planes(resized(crop, width, height))
    return laid
