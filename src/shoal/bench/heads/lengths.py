"""Texts of given lengths for each kind, and what a library pads them with.

Texts are cut by the model's own tokenizer, so that those of one length pad nothing anywhere.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from shoal.bench.heads.kinds import QUERY, Kind
from shoal.bench.quality.sentences import sentence
from shoal.bench.texts import MEDIAN_TOKENS, SPECIAL_TOKENS, mixed_length, text

EQUAL, MIXED = "equal", "mixed"
LENGTHS: dict[str, Callable[[random.Random], int]] = {
    EQUAL: lambda _: MEDIAN_TOKENS,
    MIXED: mixed_length,
}


class Texts:
    """Texts of one kind for the model of `folder`."""

    def __init__(self, kind: Kind, folder: Path) -> None:
        self._kind = kind
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()

    def draw(self, lengths: str, rng: random.Random, count: int) -> list[str]:
        """So many; their tokens, special ones included, are as `LENGTHS` draws them."""
        return [self._drawn(rng, LENGTHS[lengths](rng)) for _ in range(count)]

    def _drawn(self, rng: random.Random, tokens: int) -> str:
        longer = _personal(rng, tokens) if self._kind == "entities" else text(rng, tokens * 2)
        found: Any = self._tokenizer.encode(longer, add_special_tokens=False)
        return longer[: found.offsets[tokens - SPECIAL_TOKENS - 1][1]]

    def tokens(self, texts: Sequence[str]) -> list[int]:
        """Of each text as the model reads it, special ones and the query included."""
        asked: Any = [(QUERY, text) for text in texts] if self._kind == "score" else list(texts)
        return [len(found.ids) for found in self._tokenizer.encode_batch(asked)]


def _personal(rng: random.Random, tokens: int) -> str:
    """Sentences with names, addresses and numbers: as many words as tokens are wanted, or more."""
    words: list[str] = []
    while len(words) < tokens:
        words += sentence("en", rng).split()
    return " ".join(words)


def padding(tokens: Sequence[int], size: int) -> float:
    """Which share of what is computed is padding, in batches of `size` that are sorted by length."""
    ordered = sorted(tokens)
    batches = [ordered[start : start + size] for start in range(0, len(ordered), size)]
    computed = sum(len(batch) * batch[-1] for batch in batches)
    return 1 - sum(ordered) / computed
