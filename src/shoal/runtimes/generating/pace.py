"""How many tokens of prompts a pass takes, so that texts under way go on without a long pause.

What they add to a pass is learnt, and what a pass without them takes: where that is long, since the weights
pass by once however few rows there are, so may the prompts' part be, and longer still where many prompts wait beside
few texts. Sizes are powers of two, for which
products keep their kernels.
"""

from __future__ import annotations

#: Of a pass, what prompts may add: where texts go on beside them, and where there are prompts alone.
_BESIDE_S, _ALONE_S = 0.05, 0.5
_LEAST = 16
#: Weight of what was just measured.
_NEWEST = 0.3
#: Of a pass, what prompts add at least: a pass that was quick by chance says little of them.
_LEAST_SHARE = 0.1


class Pace:
    """Of one model."""

    def __init__(self, row_s: float, most: int) -> None:
        """`row_s`: a first guess of the seconds that a row takes; `most` rows are in no pass."""
        self._row_s, self._most = row_s, most
        self._texts_s = 0.0  # of a pass without prompts

    def room_s(self, prompts: int, texts: int) -> float:
        """What so many prompts may add to the next pass, in which so many texts go on.

        Where more wait for their first token than for the next one, theirs comes first.
        """
        if not texts:
            return _ALONE_S
        turn_s = min(_ALONE_S, self._texts_s * prompts / texts)
        return max(_BESIDE_S, self._texts_s, turn_s)

    def rows(self, prompts: int, texts: int) -> int:
        """Of these prompts, in the next pass."""
        room_s = self.room_s(prompts, texts)
        size = min(_LEAST, self._most)
        while 2 * size <= min(room_s / self._row_s, self._most):
            size *= 2
        return size

    def measured(self, texts: int, prompts: int, seconds: float) -> None:
        """A pass of so many rows of texts and of prompts took so long."""
        if not prompts:
            self._texts_s += (_NEWEST if self._texts_s else 1.0) * (seconds - self._texts_s)
        elif prompts >= _LEAST:  # fewer say nothing of many
            added = max(seconds - (self._texts_s if texts else 0.0), _LEAST_SHARE * seconds)
            self._row_s += _NEWEST * (added / prompts - self._row_s)
