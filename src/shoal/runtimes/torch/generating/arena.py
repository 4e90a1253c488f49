"""Where the keys of sequences lie: each has one range of places, and prefixes that were computed stay.

Ranges are whole from the beginning, prompt and all that may follow, so that a sequence that began never
lacks room and attention reads its keys where they lie; pages anywhere would be copied together in
every pass. What an ended sequence computed stays until its places are needed, and is found by its
tokens: blocks of them, each hashed with all before it. Where images stand among tokens, the same ones mean
something else with other images: a block's mark is hashed with it, which tells the images that it has a part
of. Knows places, tokens and marks, no tensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np

#: Tokens that are hashed together: a prefix is found up to the last whole block of it.
BLOCK = 16
#: Number of a block -> what it is hashed with besides its tokens.
Marks = Mapping[int, bytes]
_NONE: Marks = {}


@dataclass(slots=True, eq=False)
class Range:
    """Places [start, stop) of one sequence.

    `blocks`: hashes of those that were computed, in order; `used`: by a sequence that is under way.
    """

    start: int
    stop: int
    blocks: list[bytes] = field(default_factory=list)
    used: bool = True


@dataclass(slots=True, frozen=True)
class Taken:
    """A range for a sequence; of its first `reused` tokens the keys lie from `source` on."""

    range: Range
    reused: int = 0
    source: int = 0


class Arena:
    """So many places, a token each."""

    def __init__(self, places: int) -> None:
        self.places = places
        self._ranges: list[Range] = []  # by where they lie
        self._kept: dict[Range, None] = {}  # of ended sequences, that not used longest first
        self._where: dict[bytes, tuple[Range, int]] = {}  # a block -> who has it, and its number

    def take(self, tokens: list[int], room: int, marks: Marks = _NONE) -> Taken | None:
        """A range for a prompt and what follows, `room` in all; None: there is none at present.

        The keys of a prefix are to be copied before anything else is taken.
        """
        if self._gap(room, [range_ for range_ in self._ranges if range_.used]) is None:
            return None
        source, reused = self._known(tokens, marks)
        while (start := self._gap(room, self._ranges)) is None:
            oldest = next((range_ for range_ in self._kept if range_ is not source), None)
            if oldest is None:  # only what would be reused is left to go
                assert source is not None, "there is a gap without those kept"
                oldest, source, reused = source, None, 0
            self._drop(oldest)
        taken = Range(start, start + room)
        self._ranges.append(taken)
        self._ranges.sort(key=lambda range_: range_.start)
        if source is None:
            return Taken(taken)
        if source in self._kept:
            self._kept[source] = self._kept.pop(source)
        return Taken(taken, reused, source.start)

    def computed(self, range_: Range, tokens: list[int], count: int, marks: Marks = _NONE) -> None:
        """The keys of the first `count` of its tokens are there."""
        for number in range(len(range_.blocks), count // BLOCK):
            before = range_.blocks[-1] if range_.blocks else b""
            block = _hash(before, _block(tokens, number), marks.get(number))
            range_.blocks.append(block)
            former = self._where.get(block)
            self._where[block] = (range_, number)
            # An older copy that is not used is of no use any more once all of it is here too.
            if (
                former is not None
                and former[0] in self._kept
                and len(former[0].blocks) <= number + 1
            ):
                self._drop(former[0])

    def release(self, range_: Range) -> None:
        """Its sequence ended; what was computed stays while there is room."""
        range_.used = False
        range_.stop = range_.start + len(range_.blocks) * BLOCK
        self._kept[range_] = None
        if not any(self._owns(range_, number) for number in range(len(range_.blocks))):
            self._drop(range_)

    def _known(self, tokens: list[int], marks: Marks) -> tuple[Range | None, int]:
        """Who has the longest prefix of these, and its tokens; the last token is always computed."""
        found: tuple[Range, int] | None = None
        before = b""
        for number in range((len(tokens) - 1) // BLOCK):
            before = _hash(before, _block(tokens, number), marks.get(number))
            if before not in self._where:
                break
            found = self._where[before]
        return (None, 0) if found is None else (found[0], (found[1] + 1) * BLOCK)

    def _owns(self, range_: Range, number: int) -> bool:
        owner = self._where.get(range_.blocks[number])
        return owner is not None and owner[0] is range_

    def _gap(self, room: int, ranges: list[Range]) -> int | None:
        """Where so many places are free between these."""
        free = 0
        for range_ in ranges:
            if range_.start - free >= room:
                return free
            free = range_.stop
        return free if self.places - free >= room else None

    def _drop(self, range_: Range) -> None:
        for number, block in enumerate(range_.blocks):
            if self._owns(range_, number):
                del self._where[block]
        del self._kept[range_]
        self._ranges.remove(range_)


def _block(tokens: list[int], number: int) -> list[int]:
    return tokens[number * BLOCK : (number + 1) * BLOCK]


def _hash(before: bytes, tokens: list[int], mark: bytes | None) -> bytes:
    """Nobody can make two prompts whose blocks are taken for each other."""
    whole = before + np.array(tokens, np.int32).tobytes() + (mark or b"")
    return blake2b(whole, digest_size=16).digest()
