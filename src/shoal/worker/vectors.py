"""What is made of the vectors of an item's tokens, whatever the item is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shoal.catalog.card import Card
from shoal.tasks.late import Cosine, MaxSim, TokenVectors
from shoal.tasks.outputs import of_tokens
from shoal.values import EncodeParams
from shoal.worker.prepared import Finish
from shoal.worker.text.prompts import is_query


def encoded(
    card: Card,
    params: EncodeParams,
    keep: NDArray[np.bool_] | None = None,
    *,
    query: bool | None = None,
) -> Finish | None:
    """The outputs that a caller asked; None where none is made of tokens' vectors.

    `keep`: the tokens that get a vector; None: all. `query`: whether the items are queries; None: if
    their prompt is that of texts that are.
    """
    if not of_tokens(params.outputs):
        return None
    task = card.tasks.encode
    normalize = task is None or task.dense is None or task.dense.normalize
    asks = is_query(card, params) if query is None else query
    return TokenVectors(params, normalize, keep, asks)


def compared(card: Card, keep: NDArray[np.bool_] | None = None) -> Finish | None:
    """The score of a document whose query has a sequence of its own; None where the card has none."""
    task = card.tasks.score
    match task and task.head:
        case "maxsim":
            return MaxSim(keep)
        case "cosine":
            return Cosine()
    return None
