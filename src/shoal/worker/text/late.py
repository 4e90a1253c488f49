"""Query and documents as sequences of their own, whose vectors are compared afterwards."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shoal.catalog.card import Card
from shoal.errors import ShoalError
from shoal.tasks.encode import Item
from shoal.tasks.late import Cosine, MaxSim
from shoal.tasks.outputs import DENSE, MULTIVECTOR
from shoal.values import EncodeParams, ScoreParams
from shoal.worker.prepared import Finish, Prepared
from shoal.worker.text.encode import EncodeTexts
from shoal.worker.text.prompts import DOCUMENT, QUERY, as_one_of


class LateTexts:
    """Encoded as `encode` would, with the prompts named ``query`` and ``document``."""

    def __init__(self, card: Card, texts: EncodeTexts, *, tokens: bool) -> None:
        """`tokens`: the vectors of tokens are compared, else those of the whole."""
        self._card = card
        self._texts = texts
        self._tokens = tokens

    def prepare(
        self, items: list[Item], params: ScoreParams, query: str
    ) -> list[Prepared | ShoalError]:
        """Each document or its error, and then the query, computed once for all of them.

        Raises `TooManyTokens` for a query that must not be cut.
        """
        (first,) = self._texts.compared([query], self._asked(QUERY, params), None, query=True)
        if isinstance(first, ShoalError):
            raise first
        asked = self._asked(DOCUMENT, params)
        return [*self._texts.compared(items, asked, self._finish, query=False), first]

    def _asked(self, prompt: str, params: ScoreParams) -> EncodeParams:
        output = MULTIVECTOR if self._tokens else DENSE
        named = as_one_of(self._card, prompt)
        return EncodeParams((output,), truncate=params.truncate, prompt=named)

    def _finish(self, keep: NDArray[np.bool_] | None) -> Finish:
        return MaxSim(keep) if self._tokens else Cosine()
