"""Images among the tokens of prompts: each is looked at once, when a pass comes to it, and its rows stay as
long as a prompt under way needs them.

Decides nothing of passes: a long prompt is computed in pieces, and with each of them only the images that
stand in it are looked at, so that a picture of many squares does not stall texts for all of them at once.
Which image is meant is told by its bytes, so that texts that begin with the same one share it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from weakref import WeakValueDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shoal.errors import InvalidItem, InvalidRequest
from shoal.runtimes.batch import Media
from shoal.runtimes.generating.generator import Part
from shoal.runtimes.torch.families.base import Seer, Shown
from shoal.runtimes.torch.generating.arena import BLOCK, Range
from shoal.runtimes.torch.media import Takes
from shoal.wire.arrays import from_wire
from shoal.wire.socket import Generate


@dataclass(slots=True, eq=False, weakref_slot=True)
class _Image:
    """`pixels` until it was looked at, then its `rows`, [tokens, width]."""

    pixels: Media | None
    rows: Tensor | None = None


@dataclass(slots=True, eq=False)
class Prompt:
    """The images of one.

    Attributes:
        places: int64 [n], which of its tokens stand for rows of images, in their order.
        marks: block of tokens -> the digests of the images that it has rows of.
    """

    places: NDArray[np.int64]
    images: list[_Image] = field(default_factory=list)
    marks: dict[int, bytes] = field(default_factory=dict)


class Images:
    """Those of one model's prompts, by the numbers of their sequences."""

    def __init__(self, seer: Seer, takes: Takes, room: int, device: torch.device) -> None:
        """`room`: rows that may be looked at together."""
        self._seer, self._takes, self._room, self._device = seer, takes, room, device
        self._known: WeakValueDictionary[bytes, _Image] = WeakValueDictionary()
        self._prompts: dict[int, Prompt] = {}

    def read(self, asked: Generate) -> Prompt:
        """Raises `InvalidRequest` where its images are not those that its tokens have places for."""
        places = np.flatnonzero(from_wire(asked.tokens) == self._takes.place)
        inputs = [from_wire(array) for array in asked.inputs or ()]
        if len(inputs) > 1:
            raise InvalidRequest(f"images of a prompt are one array, and {len(inputs)} came")
        images = inputs[0] if inputs else None
        try:
            self._takes.check_places(len(places), images)
        except InvalidItem as error:
            raise InvalidRequest(error.message) from None
        prompt = Prompt(places)
        for number, pixels in enumerate(() if images is None else images):
            digest = blake2b(pixels, digest_size=16).digest()
            image = self._known.get(digest)
            if image is None:
                self._known[digest] = image = _Image(pixels)
            prompt.images.append(image)
            stands = places[number * self._takes.tokens : (number + 1) * self._takes.tokens]
            for block in np.unique(stands // BLOCK).tolist():
                prompt.marks[block] = prompt.marks.get(block, b"") + digest
        return prompt

    def keep(self, batch: int, prompt: Prompt) -> None:
        """A sequence has this prompt."""
        if prompt.images:
            self._prompts[batch] = prompt

    def drop(self, batch: int) -> None:
        """A sequence ended."""
        self._prompts.pop(batch, None)

    def marks(self, batch: int) -> Mapping[int, bytes]:
        """What tells prompts of the same tokens and other images apart; see `Arena`."""
        prompt = self._prompts.get(batch)
        return {} if prompt is None else prompt.marks

    def shown(self, parts: list[Part[Range]], ends: list[int]) -> Shown | None:
        """The rows that stand in a pass of these parts, whose rows end there."""
        found = [
            (prompt, part, end)
            for part, end in zip(parts, ends, strict=True)
            if (prompt := self._prompts.get(part.sequence.asked.batch)) is not None
        ]
        tokens = self._takes.tokens
        where: list[NDArray[np.int64]] = []
        pieces: list[tuple[_Image, slice]] = []
        for prompt, part, end in found:
            first, last = np.searchsorted(prompt.places, [part.start, part.stop]).tolist()
            if first == last:
                continue
            where.append(prompt.places[first:last] + (end - part.stop))
            for number in range(first // tokens, -(-last // tokens)):
                start = number * tokens
                some = slice(max(first - start, 0), min(last - start, tokens))
                pieces.append((prompt.images[number], some))
        if not pieces:
            return None
        self._look([image for image, _ in pieces])
        rows = torch.cat([image.rows[some] for image, some in pieces if image.rows is not None])
        for prompt, part, _ in found:
            if part.stop > prompt.places[-1]:
                prompt.images.clear()  # nothing that comes has a place of theirs
        return Shown(torch.from_numpy(np.concatenate(where)).to(self._device), rows)

    def _look(self, images: list[_Image]) -> None:
        """At those that were not looked at."""
        new = list(dict.fromkeys(image for image in images if image.rows is None))
        if not new:
            return
        pixels = np.stack([image.pixels for image in new if image.pixels is not None])
        seen = self._seer.look(torch.from_numpy(pixels).to(self._device), self._room)
        for image, rows in zip(new, torch.split(seen, self._takes.tokens), strict=True):
            image.rows, image.pixels = rows, None
