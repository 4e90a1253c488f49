"""Which way up lines stand, and what they say: strips of one height, laid together by width.

A strip's width is rounded up to a step, whatever runs beside it, so that a line is read alike in any
company.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from shoal.runtimes.onnx.graph import Graph
from shoal.runtimes.onnx.ocr.pixels import Floats, Pixels, strips

#: What the graphs were trained on.
HEIGHT = 48
ANGLE_WIDTH, READ_WIDTH = 192, 320
#: Columns between two widths: what is padded is seen, if little, and the reference pads to the widest.
STEP = 32
#: Columns of one pass: 47 KB each at the peak, below what the detector takes for a small picture.
PASS_COLUMNS = 2048
#: Probability from which a line is turned around.
_TURNED = 0.9


def turned(crops: list[Pixels], graph: Graph) -> tuple[list[bool], int]:
    """Whether each line stands on its head; and how many columns were computed.

    The classifier was trained on strips of four heights. Of a shorter one it may be sure and wrong
    (0.92 for an upright "8,30 €"), so those stand as most of the longer ones do, if there are any.
    Of a longer one it sees the beginning: squeezed to that width, as the reference does it, an upright
    line of 28 heights was 0.92 too, and three of nine such on their heads below 0.5. Of the
    beginnings of the same lines all are below 0.01, or above 0.98.
    """
    widths = [_width(crop) for crop in crops]
    begun = [crop[:, : ANGLE_WIDTH * len(crop) // HEIGHT] for crop in crops]
    found: list[bool] = []
    step = PASS_COLUMNS // ANGLE_WIDTH
    for start in range(0, len(crops), step):
        shown = [min(ANGLE_WIDTH, width) for width in widths[start : start + step]]
        laid = strips(begun[start : start + step], shown, ANGLE_WIDTH, HEIGHT)
        found += (graph.run(laid)[:, 1] > _TURNED).tolist()
    sure = [turn for turn, width in zip(found, widths, strict=True) if width >= ANGLE_WIDTH]
    if sure:
        most = 2 * sum(sure) > len(sure)
        found = [
            turn if width >= ANGLE_WIDTH else most
            for turn, width in zip(found, widths, strict=True)
        ]
    return found, len(crops) * ANGLE_WIDTH


def read(crops: list[Pixels], graph: Graph) -> tuple[list[NDArray[np.float64]], int]:
    """Of each line [n, 2]: codes and probabilities; and how many columns were computed."""
    widths = [_width(crop) for crop in crops]
    columns = [max(READ_WIDTH, math.ceil(width / STEP) * STEP) for width in widths]
    said: list[NDArray[np.float64]] = [np.zeros((0, 2))] * len(crops)
    for some in _passes(columns):
        own = [crops[place] for place in some]
        laid = strips(own, [widths[place] for place in some], columns[some[0]], HEIGHT)
        for place, chances in zip(some, graph.run(laid), strict=True):
            said[place] = spelled(chances)
    return said, sum(columns)


def _width(crop: Pixels) -> int:
    height, width = crop.shape[:2]
    columns: int = -(-HEIGHT * width // height)
    return columns


def _passes(columns: list[int]) -> list[list[int]]:
    """Places of one width each, and of few enough columns."""
    by_width: dict[int, list[int]] = {}
    for place, width in enumerate(columns):
        by_width.setdefault(width, []).append(place)
    passes = []
    for width, places in sorted(by_width.items()):
        step = max(1, PASS_COLUMNS // width)
        passes += [places[start : start + step] for start in range(0, len(places), step)]
    return passes


def spelled(chances: Floats) -> NDArray[np.float64]:
    """Codes and probabilities of what a line says: greedy CTC (Graves et al., 2006).

    chances: [steps, codes]; a code said in several steps on end is said once, and 0 is none.
    """
    codes = chances.argmax(1)
    kept = codes != 0
    kept[1:] &= codes[1:] != codes[:-1]
    return np.stack([codes[kept], chances[kept, codes[kept]]], 1).astype(np.float64)
