"""Query and documents as sequences of their own, whose vectors are compared afterwards."""

from __future__ import annotations

from functools import partial

import msgspec

from shoal.catalog.card import Card
from shoal.errors import ShoalError
from shoal.tasks.encode import Item
from shoal.tasks.outputs import DENSE, MULTIVECTOR
from shoal.values import EncodeParams, ScoreParams
from shoal.worker.prepared import Prepared
from shoal.worker.text.encode import EncodeTexts
from shoal.worker.text.prompts import DOCUMENT, QUERY, as_one_of
from shoal.worker.vectors import compared


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

        Raises `TooManyTokens` for a query that must not be cut, `InvalidRequest` for an instruction
        that leaves no room for it.
        """
        asked = msgspec.structs.replace(self._asked(QUERY, params), instruction=params.instruction)
        (first,) = self._texts.compared([query], asked, None, query=True)
        if isinstance(first, ShoalError):
            raise type(first)(f"the query: {first.message}", param="query")
        asked = self._asked(DOCUMENT, params)
        finish_of = partial(compared, self._card)
        return [*self._texts.compared(items, asked, finish_of, query=False), first]

    def _asked(self, prompt: str, params: ScoreParams) -> EncodeParams:
        output = MULTIVECTOR if self._tokens else DENSE
        named = as_one_of(self._card, prompt)
        return EncodeParams((output,), truncate=params.truncate, prompt=named)
