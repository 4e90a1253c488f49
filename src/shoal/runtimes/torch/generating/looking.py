"""Looks at images, a few at once, in stages between which passes are computed.

Decides how many images are looked at together, and how many stages follow each other; whose turn it is, and
which images are wanted, is `images`'.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from time import perf_counter

import numpy as np
import torch
from torch import Tensor

from shoal.runtimes.batch import Media
from shoal.runtimes.torch.families.base import Seer

#: First guess of what a stage takes of a row, in parts of what all of a decoder takes of one.
_FIRST_SHARE = 0.1
#: Weight of what was just measured.
_NEWEST = 0.3


@dataclass(slots=True, eq=False, weakref_slot=True)
class Image:
    """`pixels` until it was looked at, then its `rows`, [tokens, width]."""

    pixels: Media | None
    rows: Tensor | None = None


@dataclass(slots=True)
class _Look:
    """One that was begun; `left`: its stages to come."""

    images: list[Image]
    stages: Iterator[Tensor]
    left: int


class Looking:
    """Those of one model, one after the other."""

    def __init__(self, seer: Seer, room: int, row_s: float, device: torch.device) -> None:
        """`room`: rows that may be computed together, an image whatever it takes; `row_s`: a first guess of
        what one takes in a decoder."""
        self._seer, self._device = seer, device
        self._together = max(1, room // seer.squares)
        self._row_s = _FIRST_SHARE * row_s  # of a stage
        self._look: _Look | None = None

    def go_on(self, wanted: Sequence[Image], room_s: float) -> tuple[list[Image], float]:
        """So many stages as take `room_s`, one at least, of the look that was begun if one of its images is
        still wanted, or of the first that are; which images those were, and the seconds it took.

        wanted: images without rows, at least one.
        """
        began = perf_counter()
        look, self._look = self._look, None  # a stage that fails leaves none
        if look is None or not any(image in wanted for image in look.images):
            look = self._begun(list(wanted[: self._together]))
        rows = len(look.images) * self._seer.squares
        count = min(look.left, max(1, int(room_s / (self._row_s * rows))))
        (seen,) = deque(islice(look.stages, count), maxlen=1)
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        look.left -= count
        if look.left:
            self._look = look
        else:
            for image, its in zip(look.images, seen.chunk(len(look.images)), strict=True):
                image.rows, image.pixels = its, None
        seconds = perf_counter() - began
        self._row_s += _NEWEST * (seconds / count / rows - self._row_s)
        return look.images, seconds

    def _begun(self, images: list[Image]) -> _Look:
        pixels = np.stack([image.pixels for image in images if image.pixels is not None])
        stages = self._seer.look(torch.from_numpy(pixels).to(self._device))
        return _Look(images, stages, self._seer.stages)
