"""Whose keys llama.cpp holds: those of sequences under way, and of some that ended, for prompts that begin alike."""

from __future__ import annotations

from collections.abc import Sequence as Tokens

from shoal.runtimes.gguf.library import Context, Row

#: A beginning that is shorter is computed again: to share it is not worth a kept sequence.
LEAST_SHARED = 16


class Keys:
    """Of one context.

    Sequences have numbers below `sequences`, those that are kept the same number again above it. A place holds
    one token of one sequence; what two of them share counts for both, which is more than there is.
    """

    def __init__(self, context: Context, sequences: int, places: int) -> None:
        self.places = places
        self._context = context
        self._free = list(range(sequences))
        self._room: dict[int, int] = {}  # of those under way
        self._spare = list(range(sequences, 2 * sequences))
        self._kept: dict[int, list[int]] = {}  # the one that was used last comes last

    def take(self, tokens: list[int], room: int) -> tuple[int, int] | None:
        """A number for a sequence of these tokens that will need so much room, and how many of them are
        computed already; None while there is none."""
        if not self._free or sum(self._room.values()) + room > self.places:
            return None
        number = self._free.pop()
        self._room[number] = room
        shared = self._shared(number, tokens)
        self._make_room()
        return number, shared

    def _shared(self, number: int, tokens: list[int]) -> int:
        best, count = None, LEAST_SHARED - 1
        for kept, own in self._kept.items():
            alike = min(_alike(own, tokens), len(tokens) - 1)  # the last one gives the logits
            if alike > count:
                best, count = kept, alike
        if best is None:
            return 0
        self._kept[best] = self._kept.pop(best)
        self._context.share(best, number, count)
        return count

    def _make_room(self) -> None:
        """Let go of what is kept, the oldest first, where it may stand in the way of those under way."""
        needed = sum(self._room.values())
        while self._kept and needed + sum(map(len, self._kept.values())) > self.places:
            self._drop(next(iter(self._kept)))

    def _drop(self, kept: int) -> None:
        del self._kept[kept]
        self._context.forget(kept)
        self._spare.append(kept)

    def compute(self, rows: Tokens[Row]) -> None:
        """One pass. What is kept goes where keys have no room, as those of one sequence are scattered."""
        while not self._context.compute(rows):
            if not self._kept:
                raise MemoryError(f"the keys have no room for {len(rows)} tokens more")
            self._drop(next(iter(self._kept)))

    def leave(self, number: int, tokens: list[int]) -> None:
        """A sequence ended, of which these tokens were computed."""
        del self._room[number]
        if len(tokens) >= LEAST_SHARED:
            for kept, own in list(self._kept.items()):
                if own == tokens[: len(own)]:  # who begins like it begins like this one
                    self._drop(kept)
            if not self._spare:
                self._drop(next(iter(self._kept)))
            kept = self._spare.pop()
            self._context.share(number, kept, len(tokens))
            self._kept[kept] = tokens
        self._context.forget(number)
        self._free.append(number)
        self._make_room()


def _alike(one: list[int], other: list[int]) -> int:
    """How many tokens they begin with alike."""
    count = min(len(one), len(other))
    if one[:count] == other[:count]:
        return count
    return next(at for at in range(count) if one[at] != other[at])
