"""How good answers are, and how likenesses of vectors of tokens are counted. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float32]

_AT = 10
#: Letters, digits, and apostrophes inside a word.
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")


def ndcg(scores: Scores, right: Sequence[int]) -> float:
    """Mean nDCG@10 of scores [queries, documents], where one document is `right` for each query.

    With one right document it is 1 / log2(1 + its place) (Järvelin and Kekäläinen, Cumulated
    gain-based evaluation, 2002). A document with the same score as the right one stands before it, so
    that a model which says nothing earns nothing.
    """
    reached = scores[np.arange(len(scores)), list(right)]
    places = (scores >= reached[:, None]).sum(axis=1)
    return float(np.where(places <= _AT, 1 / np.log2(1 + places), 0.0).mean())


def best(scores: Scores, count: int) -> NDArray[np.int64]:
    """The documents with the highest scores: [queries, count], the best first."""
    places: NDArray[np.int64] = np.argsort(-scores, axis=1, kind="stable")[:, :count]
    return places


def late(queries: Sequence[Scores], documents: Sequence[Scores]) -> Scores:
    """MaxSim of vectors of tokens: [queries, documents] from arrays [tokens, dim] of unit length."""
    asked = np.concatenate(list(queries))
    starts = np.cumsum([0, *map(len, queries)][:-1])
    likeness = [(asked @ document.T).max(axis=1) for document in documents]
    return np.stack([np.add.reduceat(most, starts) for most in likeness], axis=1)


def words(text: str) -> list[str]:
    """Words in lower case without punctuation."""
    return _WORD.findall(text.lower())


def word_errors(said: Sequence[str], heard: Sequence[str]) -> int:
    """Words put in, left out and taken for others: Levenshtein's distance of words."""
    costs = list(range(len(heard) + 1))
    for place, word in enumerate(said, 1):
        before, costs[0] = costs[0], place
        for column, other in enumerate(heard, 1):
            replaced = before + (word != other)
            before = costs[column]
            costs[column] = min(replaced, before + 1, costs[column - 1] + 1)
    return costs[-1]


def word_error_rate(said: Sequence[str], heard: Sequence[str]) -> float:
    """Errors over all texts for each word that was said."""
    pairs = [(words(one), words(other)) for one, other in zip(said, heard, strict=True)]
    return sum(word_errors(*pair) for pair in pairs) / sum(len(one) for one, _ in pairs)
