"""Images among the tokens of a text: each of their tokens gives way to a row of what was seen.

What looks at them, and how its rows become as wide as embedded tokens, is a family's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

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
        self.row_bytes = tower.row_bytes
        self.squares, self.stages = tower.rows, tower.stages + 1

    def look(self, images: Tensor) -> Iterator[Tensor]:
        """uint8 [images, height, width, 3] -> rows after each stage; see `Seer`."""
        rows = images
        for after in self._tower.in_stages(images):
            rows = after
            yield rows
        yield self._joined(rows)

    def __call__(self, rows: Tensor, packed: Packed) -> Tensor:
        """[computed, width], the images' rows in their places."""
        if packed.media is None:
            return rows
        some = torch.split(packed.media, max(1, packed.computed // self.squares))
        seen = torch.cat(
            [self._joined(self._tower(laid_out(few, self.squares), few)) for few in some]
        )
        there = packed.tokens[: packed.used] == self._place
        rows[: packed.used][there] = seen.to(rows.dtype)
        return rows


def check_place(key: str, token: int, vocabulary: int) -> None:
    """Raises `ValueError`, naming the key, where images take the places of no token there is."""
    if token >= vocabulary:
        raise ValueError(f"{key} {token} is outside of the vocabulary of {vocabulary}")
