"""`extract`: what stands in a picture. How large a reader sees it, and what its characters say. Pure.

A reader answers rows of `ROW` numbers, one a character: the line it belongs to, its code, how sure it
is, and the four corners of the line in pixels of the picture that it got.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from shoal.tasks.outputs import EXTRACT, Rows
from shoal.wire.objects import Extraction, Line, Page

#: Line, code, probability, x and y of four corners.
ROW = 11
#: A token of a picture is a tile of 32 x 32 pixels: detectors halve their input five times.
TILE = 32
#: Bounds of PP-OCR's own pipeline: detectors see no longer side, and where it fits no shorter one.
LONGEST, SHORTEST = 2000, 30
#: Pictures are shown to the detector with this shorter side at least ...
DETECTED_SHORTEST = 736
#: ... and pictures of one line, wider than this for their height, with black above and below.
LINE_SHAPE = 8

_encode = msgspec.msgpack.Encoder().encode


def sent_size(width: int, height: int, max_tokens: int) -> tuple[int, int]:
    """Width and height of the picture that a reader gets of one of this size."""
    least = max(1.0, SHORTEST / min(width, height))
    scale = min(least, LONGEST / max(width, height), _most_scale(width, height, max_tokens))
    # Rounded down, so that none has more tiles; 2,000 of 3,000 may be 1,999.9999.
    wide, high = (max(1, int(side * scale + 1e-6)) for side in (width, height))
    return wide, high


def black_rows(width: int, height: int) -> int:
    """Rows of black that are put above such a picture, and as many below."""
    if height > SHORTEST and width <= LINE_SHAPE * height:
        return 0
    return (2 * max(width // LINE_SHAPE, SHORTEST) - height) // 2


def detected_size(width: int, height: int, max_tokens: int) -> tuple[int, int]:
    """Width and height, whole tiles, at which a detector sees a picture with its black rows."""
    scale = max(1.0, DETECTED_SHORTEST / min(width, height))
    scale = min(scale, _most_scale(width, height, max_tokens))
    wide, high = (max(1, round(int(side * scale) / TILE)) * TILE for side in (width, height))
    return wide, high


def tokens_of(width: int, height: int, max_tokens: int) -> int:
    """What reading a picture of this size costs, in tiles that the detector sees."""
    wide, high = detected_size(width, height + 2 * black_rows(width, height), max_tokens)
    return wide * high // TILE**2


def _most_scale(width: int, height: int, max_tokens: int) -> float:
    return math.sqrt(max_tokens * TILE**2 / (width * height))


class Reading(msgspec.Struct, frozen=True):
    """What is told of a file's pictures.

    Attributes:
        characters: by code; the first stands for none.
        threshold: least score of a line that is told.
        sizes: width and height of each picture as the file has it. `sent`: as the reader got it.
        pages: whether the file has pages, each told by itself.
    """

    characters: tuple[str, ...]
    threshold: float
    sizes: tuple[tuple[int, int], ...]
    sent: tuple[tuple[int, int], ...]
    pages: bool

    def __call__(self, rows: Sequence[Rows], beside: Sequence[Rows] = ()) -> bytes:
        """An `Extraction` in MessagePack."""
        pages = [
            self._page(np.asarray(row[EXTRACT]), size, sent)
            for row, size, sent in zip(rows, self.sizes, self.sent, strict=True)
        ]
        if self.pages:
            text = "\n\n".join(page.text for page in pages if page.text)
            return _encode(Extraction(text=text, pages=pages))
        [page] = pages
        return _encode(
            Extraction(text=page.text, lines=page.lines, width=page.width, height=page.height)
        )

    def _page(
        self, rows: NDArray[np.float32], size: tuple[int, int], sent: tuple[int, int]
    ) -> Page:
        scale = np.array(size) / np.array(sent)
        ends = np.flatnonzero(np.diff(rows[:, 0])) + 1
        found = [self._line(own, scale) for own in np.split(rows, ends) if len(own)]
        told = [line for line in found if line.text.strip() and line.score >= self.threshold]
        ordered = in_order(told)
        text = "\n".join(" ".join(line.text for line in row) for row in ordered)
        return Page(text, [line for row in ordered for line in row], *size)

    def _line(self, rows: NDArray[np.float32], scale: NDArray[np.float64]) -> Line:
        text = "".join(self.characters[int(code)] for code in rows[:, 1])
        corners = np.rint(rows[0, 3:].reshape(4, 2) * scale).astype(int).tolist()
        return Line(text, round(float(rows[:, 2].mean()), 4), corners)


def in_order(lines: list[Line]) -> list[list[Line]]:
    """Lines as one reads them: rows from the top, each from the left, however the page lies.

    Its direction is the mean of its lines'. Two lines stand in one row if the middle of the lower one
    is no further down than half a height of the flatter one.
    """
    if not lines:
        return []
    corners = np.array([line.box for line in lines], np.float64)
    along = (corners[:, 1] - corners[:, 0]).sum(0)
    along /= max(1.0, float(np.hypot(*along)))
    down = np.array([-along[1], along[0]])
    middles, starts = corners.mean(1) @ down, (corners @ along).min(1)
    heights = np.hypot(*(corners[:, 3] - corners[:, 0]).T)
    rows: list[list[int]] = []
    for place in np.argsort(middles, kind="stable").tolist():
        first = rows[-1][0] if rows else None
        if first is None or middles[place] - middles[first] >= heights[[place, first]].min() / 2:
            rows.append([])
        rows[-1].append(place)
    return [[lines[place] for place in sorted(row, key=lambda n: starts[n])] for row in rows]
