"""What stands in prompts and texts, a row a place, so that tokens that were there can be made less likely."""

from __future__ import annotations

import torch
from torch import Tensor


class Penalties:
    """Of a model with so many places and tokens."""

    def __init__(self, places: int, vocabulary: int, device: torch.device) -> None:
        self._shape, self._device = (places, vocabulary), device
        self._counts: Tensor | None = None  # int32: how often the text has it
        self._seen: Tensor | None = None  # whether prompt or text have it

    @staticmethod
    def bytes(places: int, vocabulary: int) -> int:
        """Of both tables, which are made when the first sequence asks for them."""
        return places * vocabulary * (torch.int32.itemsize + torch.bool.itemsize)

    def begin(self, place: int, prompt: list[int]) -> None:
        """A sequence with this prompt has this place now."""
        if self._counts is None or self._seen is None:
            self._counts = torch.zeros(self._shape, dtype=torch.int32, device=self._device)
            self._seen = torch.zeros(self._shape, dtype=torch.bool, device=self._device)
        self._counts[place] = 0
        self._seen[place] = False
        self._seen[place, torch.tensor(prompt, device=self._device)] = True

    def add(self, places: Tensor, tokens: Tensor) -> None:
        """The texts at these places go on with these tokens, one each."""
        assert self._counts is not None and self._seen is not None, "each of them began"
        self._counts[places, tokens] += 1
        self._seen[places, tokens] = True

    def taken_off(self, scores: Tensor, places: Tensor, by: Tensor) -> Tensor:
        """Scores [n, vocabulary] of the texts at these places.

        by: float32 [3, n, 1]: repetition, presence, frequency.
        """
        assert self._counts is not None and self._seen is not None, "each of them began"
        repetition, presence, frequency = by
        divided = torch.where(scores > 0, scores / repetition, scores * repetition)
        scores = torch.where(self._seen[places], divided, scores)
        counts = self._counts[places]
        lowered: Tensor = scores - presence * (counts > 0) - frequency * counts
        return lowered
