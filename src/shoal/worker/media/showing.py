"""Images of conversations: decoded, and written into their prompt as the model reads them.

Decides how many there may be. Sizes and what stands for an image are the model's own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.catalog.pages import PLACE, PageForm
from shoal.errors import ComputeFailed, InvalidItem, ShoalError, TooManyTokens, reason
from shoal.tasks.generate.conversation import Picture
from shoal.worker.media.decoding import Decoded
from shoal.worker.text.generate import Shown

#: Forms of images whose text is kept: a model of 4 x 4 squares has fewer.
_KEPT = 32


class Showing:
    """For one model."""

    def __init__(
        self, decode: Callable[[bytes], Decoded], form: PageForm, most: int, limit: int
    ) -> None:
        """`most`: images of a conversation; `limit`: tokens of a prompt."""
        self._decode, self._most, self._limit = decode, most, limit
        self._tokens = form.tokens
        self._text_of = lru_cache(_KEPT)(form.image)

    def shown(self, prompt: str, pictures: tuple[Picture, ...]) -> Shown:
        """What a prompt becomes, and the pixels of all that stands in it, uint8 [images, height, width, 3].

        Raises `InvalidItem` for a file that cannot be read, naming its part, and where the prompt has not
        one place for each image; `TooManyTokens` before more is decoded than the model reads.
        """
        before, *behind = prompt.split(PLACE)
        if len(behind) != len(pictures):
            raise InvalidItem(
                f"this conversation has {len(pictures)} images, and its prompt {len(behind)} places for "
                f"some: texts must not say {PLACE}, and a chat template must for each image"
            )
        if len(pictures) > self._most:
            raise InvalidItem(
                f"this conversation has {len(pictures)} images, and at most {self._most} are taken "
                "(`media_images` of the worker); send fewer"
            )
        pixels: list[NDArray[Any]] = []
        whole = [before]
        for picture, text in zip(pictures, behind, strict=True):
            squares, (rows, columns) = self._read(picture)
            pixels.append(squares)
            if (tokens := self._tokens * sum(map(len, pixels))) > self._limit:
                raise TooManyTokens(
                    f"this conversation's images up to {picture.where} are more than {tokens} tokens, and "
                    f"the model takes at most {self._limit}; send fewer"
                )
            whole += [self._text_of(rows, columns), text]
        return Shown("".join(whole), np.concatenate(pixels) if pixels else None)

    def _read(self, picture: Picture) -> tuple[NDArray[Any], tuple[int, int]]:
        """Its squares, and how many rows and columns they are. Raises `ShoalError` naming its part."""
        try:
            if not picture.data:
                raise InvalidItem("it is empty")
            decoded = self._decode(picture.data)
        except ShoalError as error:
            raise InvalidItem(f"{picture.where}: {error.message}") from None
        except Exception as error:  # each library has its own
            raise ComputeFailed(f"{picture.where} could not be decoded: {reason(error)}") from None
        (squares,), (grid,) = decoded.arrays, decoded.grids
        return squares, grid
