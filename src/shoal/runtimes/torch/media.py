"""Images and sound of a batch, as its models take them: checked, stacked, packed.

Knows shapes, no architecture. An item of media becomes as many rows as its encoder makes of it, so
that attention and heads see it as a group of items of one length; or it comes among tokens, each of
which stands for a row of it.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray

from shoal.errors import InvalidItem
from shoal.runtimes.batch import Beginning, Media
from shoal.runtimes.torch.packed import Group, Packed


class Takes(msgspec.Struct, frozen=True):
    """The media that an encoder takes.

    Attributes:
        what: for messages.
        dtype: ``uint8`` or ``float32``.
        shape: of an item.
        tokens: rows that an item becomes.
        fill: what stands in the last columns of an item that has fewer; None: none may have fewer.
        together: items of a pass at least, where there are as many.
        most: items of a pass at most; None: as its rows allow.
        place: the token that stands for a row of an image, where items have both: then an item's
            input is [images, *shape], and `tokens` are those of one image.
    """

    what: str
    dtype: str
    shape: tuple[int, ...]
    tokens: int
    fill: Callable[[Media], float] | None = None
    together: int = 1
    most: int | None = None
    place: int | None = None

    def items(self, pass_tokens: int) -> int:
        """Of a pass of so many rows."""
        count = max(self.together, pass_tokens // self.tokens)
        return count if self.most is None else min(self.most, count)

    def check(self, item: Media) -> None:
        """Raises `InvalidItem` where the encoder does not take this."""
        fits = item.shape == self.shape
        if self.fill is not None and item.ndim == len(self.shape) and item.shape[-1] > 0:
            fits = item.shape[:-1] == self.shape[:-1] and item.shape[-1] <= self.shape[-1]
        if not fits or item.dtype != self.dtype:
            raise InvalidItem(
                f"this item came as {item.dtype} of shape {list(item.shape)}, and the model takes "
                f"{self.what} as {self.dtype} of {list(self.shape)}"
            )

    def check_places(self, places: int, item: Media | None) -> None:
        """Raises `InvalidItem` where the places among an item's tokens are not those of its images."""
        images = [] if item is None or not item.size else [*item]
        for image in images:
            self.check(image)
        if places != len(images) * self.tokens:
            raise InvalidItem(
                f"this item has {len(images)} images of {self.tokens} tokens each, and {places} tokens "
                f"that stand for images (number {self.place})"
            )

    def stacked(self, items: list[Media]) -> Media:
        """[items, *shape], with what is missing filled in."""
        whole = np.empty((len(items), *self.shape), self.dtype)
        for place, item in zip(whole, items, strict=True):
            place[..., : item.shape[-1]] = item
            if self.fill is not None and item.shape[-1] < self.shape[-1]:
                place[..., item.shape[-1] :] = self.fill(item)
        return whole

    def blank(self) -> Media:
        """An item of nothing."""
        return np.zeros(self.shape, self.dtype)


def pack_media(
    items: list[Media],
    rows: NDArray[np.int64],
    takes: Takes,
    *,
    pass_tokens: int,
    device: torch.device,
    beginnings: list[Beginning] | None = None,
) -> list[Packed]:
    """Packs media into passes of at most `pass_tokens` rows (or as many items as the
    encoder wants together).

    items, beginnings: those of the whole batch. rows: the positions of those to take.
    """
    step = takes.items(pass_tokens)
    passes = []
    for start in range(0, len(rows), step):
        chosen = rows[start : start + step]
        media = torch.from_numpy(takes.stacked([items[row] for row in chosen]))
        packed = laid_out(media.to(device, non_blocking=True), takes.tokens, chosen)
        if beginnings is not None:
            own = [beginnings[row] for row in chosen]
            packed = msgspec.structs.replace(packed, beginnings=own)
        passes.append(packed)
    return passes


def among_tokens(passes: list[Packed], items: list[Media], device: torch.device) -> list[Packed]:
    """The same passes, with the images of their items, each [images, *shape]."""
    whole = []
    for packed in passes:
        images = [items[row] for row in packed.rows.tolist() if items[row].size]
        if images:
            media = torch.from_numpy(np.concatenate(images)).to(device, non_blocking=True)
            packed = msgspec.structs.replace(packed, media=media)
        whole.append(packed)
    return whole


def laid_out(media: torch.Tensor, length: int, rows: NDArray[np.int64] | None = None) -> Packed:
    """Media as a pass by itself: each item `length` rows; `rows`: as `Packed` has them."""
    count = len(media)
    positions = torch.arange(length, device=media.device)
    return Packed(
        rows=np.arange(count) if rows is None else rows,
        tokens=positions.new_zeros(count * length),
        positions=positions.repeat(count),
        offsets=torch.arange(0, count * length + 1, length, dtype=torch.int32, device=media.device),
        groups=[Group(0, count * length, count, length)],
        longest=length,
        media=media,
    )
