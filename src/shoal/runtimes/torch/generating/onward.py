"""Texts that go on with their prompts: one decoder computes both, all rows of a pass packed together."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from torch import Tensor

from shoal.runtimes.generating.generator import Part
from shoal.runtimes.torch.families.base import Decoder
from shoal.runtimes.torch.generating.arena import Range
from shoal.runtimes.torch.generating.images import Images
from shoal.runtimes.torch.generating.keys import Keys, Pass, Span
from shoal.runtimes.torch.generating.parts import Kept, range_of
from shoal.runtimes.torch.packed import rounded


class Onward:
    """How passes of such a model are computed.

    Attributes:
        begin: the token that texts begin with, where they begin anew.
    """

    begin: int | None = None

    def __init__(
        self, decoder: Decoder, keys: Keys, device: torch.device, images: Images | None = None
    ) -> None:
        """`images`: those of prompts, of a model that reads some."""
        self._decoder, self._keys, self._device = decoder, keys, device
        self._images = images

    @staticmethod
    def before(sequence: Kept) -> list[int]:
        """What stands before the text: tokens whose keys may be there already, and that penalties count."""
        return sequence.tokens

    def compute(self, parts: list[Part[Range]]) -> tuple[Tensor, list[int]]:
        """Hidden states [computed, width], and where the rows of each part end."""
        ends = np.cumsum([part.rows for part in parts]).tolist()
        filled = np.zeros((2, rounded(ends[-1])), np.int64)
        spans = []
        for part, end in zip(parts, ends, strict=True):
            rows = slice(end - part.rows, end)
            filled[0, rows] = part.sequence.tokens[part.start : part.stop]
            filled[1, rows] = np.arange(part.start, part.stop)
            spans.append(Span(rows, range_of(part).start, part.start))
        tokens, positions = torch.from_numpy(filled).to(self._device, non_blocking=True)
        over = Pass(spans, self._device)
        layers = range(len(self._decoder.kept))
        attends = [partial(self._keys.attend, number, over=over) for number in layers]
        shown = None if self._images is None else self._images.shown(parts, ends)
        return self._decoder.carry_on(tokens, positions, attends, shown), ends
