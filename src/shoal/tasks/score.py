"""`score`: how two texts share the room of one sequence, and logits to scores. Pure."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float32]


def shares(kept: int, cut: int, room: int) -> tuple[int, int]:
    """Tokens that stay of a query and a document of so many: the document is cut, the query kept.

    A query that fills all of the room by itself would leave none for any document: then each has half,
    and what a short document leaves is the query's.
    """
    if kept >= room:
        cut = min(cut, room // 2)
        return room - cut, cut
    return kept, min(cut, room - kept)


def activated(logits: NDArray[Any], activation: Literal["sigmoid", "identity"]) -> Scores:
    """Scores of logits, float32 as they are."""
    if activation == "identity":
        return logits.astype(np.float32, copy=False)
    return sigmoid(logits)


def sigmoid(logits: NDArray[Any]) -> Scores:
    """1 / (1 + e^-x) without overflow."""
    shrunk = np.exp(-np.abs(logits.astype(np.float64)))
    scores = np.where(logits >= 0, 1.0, shrunk) / (1.0 + shrunk)
    return scores.astype(np.float32)
