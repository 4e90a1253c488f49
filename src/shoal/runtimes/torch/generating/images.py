"""Images among the tokens of prompts: each is looked at once, before its tokens are read, and its rows stay as
long as a prompt under way needs them.

Decides whether a pass goes on with a look or reads tokens of prompts: where both wait they take turns, so that
neither holds up the other, nor both together the texts that are written beside them.
Which image is meant is told by its bytes, so that texts that begin with the same one share it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from weakref import WeakValueDictionary

import numpy as np
import torch
from numpy.typing import NDArray

from shoal.errors import InvalidItem, InvalidRequest
from shoal.runtimes.generating.generator import Part
from shoal.runtimes.torch.families.base import Shown
from shoal.runtimes.torch.generating.arena import BLOCK, Range
from shoal.runtimes.torch.generating.looking import Image, Looking
from shoal.runtimes.torch.generating.parts import Kept
from shoal.runtimes.torch.media import Takes
from shoal.wire.arrays import from_wire
from shoal.wire.socket import Generate


@dataclass(slots=True, eq=False)
class Prompt:
    """The images of one.

    Attributes:
        places: int64 [n], which of its tokens stand for rows of images, in their order.
        marks: block of tokens -> the digests of the images that it has rows of.
    """

    places: NDArray[np.int64]
    images: list[Image] = field(default_factory=list)
    marks: dict[int, bytes] = field(default_factory=dict)


class Images:
    """Those of one model's prompts, by the numbers of their sequences."""

    def __init__(self, looking: Looking, takes: Takes, device: torch.device) -> None:
        self._looking, self._takes, self._device = looking, takes, device
        self._known: WeakValueDictionary[bytes, Image] = WeakValueDictionary()
        self._prompts: dict[int, Prompt] = {}
        self._looked = False

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
                self._known[digest] = image = Image(pixels)
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

    def readable(self, sequence: Kept) -> int:
        """How far its prompt can be read: up to an image that was not looked at."""
        unseen = next(self._unseen(sequence), None)
        if unseen is None:
            return sequence.prompt
        places = self._prompts[sequence.asked.batch].places
        return int(places[unseen * self._takes.tokens])

    def look(self, prompts: Sequence[Kept], room_s: float) -> bool:
        """Look for about so long at images of these prompts, unless none are left or tokens come first."""
        wanted = {
            self._prompts[prompt.asked.batch].images[number]: None
            for prompt in prompts
            for number in self._unseen(prompt)
        }
        waits = any(self.readable(prompt) > prompt.computed for prompt in prompts)
        self._looked = bool(wanted) and not (self._looked and waits)
        if self._looked:
            images, seconds = self._looking.go_on([*wanted], room_s)
            self._share(prompts, images, seconds)
        return self._looked

    def _share(self, prompts: Sequence[Kept], images: list[Image], seconds: float) -> None:
        """Those prompts that have these images bear what a look took."""
        known = [self._prompts.get(prompt.asked.batch) for prompt in prompts]
        bear = [
            prompt
            for prompt, of in zip(prompts, known, strict=True)
            if of is not None and not set(images).isdisjoint(of.images)
        ]
        for prompt in bear:
            prompt.seconds += seconds / len(bear)

    def _unseen(self, sequence: Kept) -> Iterator[int]:
        """By number, its images that were not looked at and have tokens that were not read."""
        prompt = self._prompts.get(sequence.asked.batch)
        if prompt is not None:
            read = int(np.searchsorted(prompt.places, sequence.computed))
            for number in range(read // self._takes.tokens, len(prompt.images)):
                if prompt.images[number].rows is None:
                    yield number

    def shown(self, parts: list[Part[Range]], ends: list[int]) -> Shown | None:
        """The rows that stand in a pass of these parts, whose rows end there."""
        found = [
            (prompt, part, end)
            for part, end in zip(parts, ends, strict=True)
            if (prompt := self._prompts.get(part.sequence.asked.batch)) is not None
        ]
        tokens = self._takes.tokens
        where: list[NDArray[np.int64]] = []
        pieces: list[tuple[Image, slice]] = []
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
        rows = torch.cat([image.rows[some] for image, some in pieces if image.rows is not None])
        for prompt, part, _ in found:
            if part.stop > prompt.places[-1]:
                prompt.images.clear()  # nothing that comes has a place of theirs
        return Shown(torch.from_numpy(np.concatenate(where)).to(self._device), rows)
