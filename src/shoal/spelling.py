"""Which known word was meant by one that is unknown, for messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

#: Longest word that a nearest one is looked for.
_LONGEST = 200
#: Most pairs of letters that are compared for it, some 50 ms of them: callers name both sides.
_MOST_PAIRS = 1_000_000
#: Fewer letters stand in too many words to tell which is meant.
_PART = 3
_SHORT = 4


def closest(word: str, known: Iterable[str], cutoff: float | None = None) -> str | None:
    """The known word that is written most alike, or that has `word` in it; None if none is near.

    `cutoff`: least share of letters that both have in order, 0 to 1; None: as the word is long.
    """
    if cutoff is None:
        # Two letters in each other's place leave half of four.
        cutoff = 0.6 if len(word) > _SHORT else 0.5
    if not word or len(word) > _LONGEST:
        return None  # comparing takes time that grows with its length
    word, spelled = word.lower(), {name.lower(): name for name in known if len(name) <= _LONGEST}
    if len(word) * sum(map(len, spelled)) > _MOST_PAIRS:
        return None
    close = difflib.get_close_matches(word, spelled, n=1, cutoff=cutoff)
    if not close and len(word) >= _PART:
        close = sorted((name for name in spelled if word in name), key=len)
    return spelled[close[0]] if close else None


def nearest(word: str, known: Iterable[str]) -> str:
    """`` (did you mean 'x'?)`` for the closest known word, or an empty string."""
    close = closest(word, known)
    return "" if close is None else f" (did you mean '{close}'?)"
