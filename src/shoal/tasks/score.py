"""`score`: how two texts share the room of one sequence, and logits to scores. Pure."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float32]


def shares(kept: int, cut: int, room: int) -> tuple[int, int]:
    """Tokens that stay of two texts of so many: the longer one is cut until both fit.

    So the document is cut and the query kept, unless the query has more than half of the room: then
    each of two long texts gets half, and what a short document leaves is the query's. That is
    ``longest_first`` of Hugging Face's tokenizers, with which cross-encoders are trained and run.
    """
    if kept + cut <= room:
        return kept, cut
    short = min(kept, cut)
    long = room - short
    if long < short:
        short, long = room // 2, room - room // 2
    return (short, long) if kept <= cut else (long, short)


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
