"""Images among the tokens of a text: each of their tokens gives way to a row of what was seen.

Decides how many images are looked at together; what looks at them, and how its rows become as wide
as embedded tokens, is a family's own.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from shoal.runtimes.torch.families.siglip import SiglipTower
from shoal.runtimes.torch.media import laid_out
from shoal.runtimes.torch.packed import Packed


class Pictures:
    """What looks at images; see `Seer` for its attributes.

    place: the token that stands for a row.
    joined: rows of a tower, [images * squares, hidden] -> [images * tokens, width].
    """

    def __init__(self, place: int, tower: SiglipTower, joined: Callable[[Tensor], Tensor]) -> None:
        self._place = place
        self._tower = tower
        self._joined = joined
        self.bytes_per_token = tower.bytes_per_token
        self.squares = tower.rows

    def look(self, images: Tensor, room: int) -> Tensor:
        """uint8 [images, height, width, 3] -> [images * tokens, width]; see `Seer`."""
        some = torch.split(images, max(1, room // self._tower.rows))
        return torch.cat(
            [self._joined(self._tower(laid_out(few, self._tower.rows), few)) for few in some]
        )

    def __call__(self, rows: Tensor, packed: Packed) -> Tensor:
        """[computed, width], the images' rows in their places."""
        if packed.media is None:
            return rows
        seen = self.look(packed.media, packed.computed)
        there = packed.tokens[: packed.used] == self._place
        rows[: packed.used][there] = seen.to(rows.dtype)
        return rows


def check_place(key: str, token: int, vocabulary: int) -> None:
    """Raises `ValueError`, naming the key, where images take the places of no token there is."""
    if token >= vocabulary:
        raise ValueError(f"{key} {token} is outside of the vocabulary of {vocabulary}")
