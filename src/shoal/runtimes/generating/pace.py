"""How many tokens of prompts a pass takes, so that texts under way go on without a long pause.

Passes over more rows compute more of them a second, and take longer; how long, is learnt. Sizes are powers of
two, for which products keep their kernels.
"""

from __future__ import annotations

#: Of a pass: where texts go on beside the prompt, and where there are prompts alone.
_BESIDE_S, _ALONE_S = 0.05, 0.2
_LEAST = 16
#: Weight of what was just measured.
_NEWEST = 0.3


class Pace:
    """Of one model."""

    def __init__(self, row_s: float, most: int) -> None:
        """`row_s`: a first guess of the seconds that a row takes; `most` rows are in no pass."""
        self._row_s, self._most = row_s, most

    def rows(self, *, beside: bool) -> int:
        """Of prompts, in the next pass."""
        wanted = (_BESIDE_S if beside else _ALONE_S) / self._row_s
        size = min(_LEAST, self._most)
        while 2 * size <= min(wanted, self._most):
            size *= 2
        return size

    def measured(self, rows: int, seconds: float) -> None:
        """A pass of so many rows took so long; those of few rows say nothing of those of many."""
        if rows >= _LEAST:
            self._row_s += _NEWEST * (seconds / rows - self._row_s)
