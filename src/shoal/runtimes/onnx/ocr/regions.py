"""From the detector's map to boxes: differentiable binarization (Liao et al., 2020), in numpy.

Thresholds are PP-OCR's. The detector was trained on lines that were made thinner, so each box is
made wider again by its area and length.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shoal.runtimes.onnx.ocr.components import Points, parts, smallest_rectangle

Floats = NDArray[np.float32]

#: Least probability of a pixel of text, and on average of a box.
_PIXEL, _BOX = 0.3, 0.5
_UNCLIP = 1.6
#: Boxes that are flatter are dirt: of the map, of the map once made wider, of the picture.
_FLAT, _FLAT_WIDER, _FLAT_SHOWN = 3, 5, 3
#: Boxes of one picture; a page of newsprint has some 500 lines.
_MOST = 1000


def boxes(chances: Floats, width: int, height: int) -> list[Floats]:
    """Boxes of text, [4, 2] whole pixels of a picture of this size, clockwise from the top left.

    chances: [rows, columns], how likely each place shows text.
    """
    found: list[Floats] = []
    scale = np.array([width / chances.shape[1], height / chances.shape[0]])
    for points in parts(_thicker(chances > _PIXEL))[:_MOST]:
        corners, along, across = smallest_rectangle(points)
        if min(along, across) < _FLAT or _mean_inside(chances, corners) < _BOX:
            continue
        margin = along * across * _UNCLIP / (2 * (along + across))
        if min(along, across) + 2 * margin < _FLAT_WIDER:
            continue
        whole = _clockwise(np.rint(_wider(corners, margin) * scale))
        box: Floats = np.clip(whole, 0, [width - 1, height - 1]).astype(np.float32)
        edges = np.linalg.norm(box[[1, 3]] - box[0], axis=1)
        if edges.astype(int).min() > _FLAT_SHOWN:
            found.append(box)
    return found


def _thicker(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Each place of text, and those to its right and below."""
    wide = mask.copy()
    wide[:, 1:] |= mask[:, :-1]
    whole = wide.copy()
    whole[1:] |= wide[:-1]
    return whole


def _mean_inside(chances: Floats, corners: Points) -> float:
    rows, columns = chances.shape
    left, top = np.clip(np.floor(corners.min(0)).astype(int), 0, [columns - 1, rows - 1])
    right, bottom = np.clip(np.ceil(corners.max(0)).astype(int), 0, [columns - 1, rows - 1])
    y, x = np.mgrid[top : bottom + 1, left : right + 1]
    edges = np.roll(corners, -1, 0) - corners
    inside = np.ones(x.shape, bool)
    for (from_x, from_y), (along_x, along_y) in zip(corners, edges, strict=True):
        away = along_x * (y - from_y) - along_y * (x - from_x)
        inside &= away >= -np.hypot(along_x, along_y) / 2  # half a pixel beyond the edge counts
    return float(chances[top : bottom + 1, left : right + 1][inside].mean())


def _wider(corners: Points, margin: float) -> Points:
    """The rectangle with `margin` more on each side."""
    edges = np.roll(corners, -1, 0) - corners
    outward = margin * edges / np.hypot(*edges.T)[:, None]
    wider: Points = corners + np.roll(outward, 1, 0) - outward
    return wider


def _clockwise(corners: Points) -> Points:
    """Top left, top right, bottom right, bottom left: the two leftmost, the two rightmost."""
    left, right = np.split(corners[np.argsort(corners[:, 0], kind="stable")], 2)
    left, right = (side[np.argsort(side[:, 1], kind="stable")] for side in (left, right))
    return np.stack([left[0], right[0], right[1], left[1]])
