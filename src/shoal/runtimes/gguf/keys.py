"""Whose keys are held: by llama.cpp those of sequences under way, here of some that ended, for prompts that
begin alike.

A pass looks at every place up to the last one that is taken, whosever it is, so that those that ended would
make all others slower: eight of 130 tokens added 4 % to each pass of SmolLM2 135M. To copy one of them out
takes 2 ms, and back 0.5.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.runtimes.gguf.library import Context

#: A beginning that is shorter is computed again: to share it is not worth a kept sequence.
LEAST_SHARED = 16


class _Kept(NamedTuple):
    """Of one that ended: its tokens, and their keys as the library writes them."""

    tokens: list[int]
    state: NDArray[np.uint8]


class Keys:
    """Of one context."""

    def __init__(self, context: Context, sequences: int, places: int, most_kept: int) -> None:
        """`places`: for tokens of those under way; `most_kept`: tokens of those that ended."""
        self._places, self._most_kept = places, most_kept
        self._context = context
        self._free = list(range(sequences))
        self._room: dict[int, int] = {}  # of those under way
        self._kept: list[_Kept] = []  # the one that was used last comes last

    def take(self, tokens: list[int], room: int) -> tuple[int, int] | None:
        """A number for a sequence of these tokens that will need so much room, and how many of them are
        computed already; None while there is none."""
        if not self._free or sum(self._room.values()) + room > self._places:
            return None
        number = self._free.pop()
        self._room[number] = room
        return number, self._shared(number, tokens)

    def _shared(self, number: int, tokens: list[int]) -> int:
        best, count = None, LEAST_SHARED - 1
        for kept in self._kept:
            alike = min(_alike(kept.tokens, tokens), len(tokens) - 1)  # the last gives the logits
            if alike > count:
                best, count = kept, alike
        if best is None:
            return 0
        self._used(best)
        self._context.restore(number, best.state)
        self._context.forget(number, count)
        return count

    def leave(self, number: int, tokens: list[int]) -> None:
        """A sequence ended, of which these tokens were computed."""
        self._keep(number, tokens[: self._most_kept])
        del self._room[number]
        self._context.forget(number)
        self._free.append(number)

    def _keep(self, number: int, tokens: list[int]) -> None:
        """Its beginning, as far as there is room, in the place of those that it begins with."""
        if len(tokens) < LEAST_SHARED:
            return
        for kept in self._kept:
            if kept.tokens[: len(tokens)] == tokens:
                self._used(kept)
                return
        self._kept = [kept for kept in self._kept if kept.tokens != tokens[: len(kept.tokens)]]
        held = sum(len(kept.tokens) for kept in self._kept)
        while self._kept and held + len(tokens) > self._most_kept:
            held -= len(self._kept.pop(0).tokens)
        self._context.forget(number, len(tokens))
        self._kept.append(_Kept(tokens, self._context.state(number)))

    def _used(self, kept: _Kept) -> None:
        self._kept = [*(other for other in self._kept if other is not kept), kept]


def _alike(one: list[int], other: list[int]) -> int:
    """How many tokens they begin with alike."""
    count = min(len(one), len(other))
    if one[:count] == other[:count]:
        return count
    return next(at for at in range(count) if one[at] != other[at])
