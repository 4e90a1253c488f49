"""Images among the tokens that their model reads them with: a page as one sequence."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from numpy.typing import NDArray

from shoal.catalog.card import Card
from shoal.catalog.pages import PLACE, PageForm
from shoal.errors import InvalidItem, ModelLoadFailed
from shoal.worker.prepared import Ids, Prepared
from shoal.worker.text.sequence import array_of
from shoal.worker.text.tokens import Tokens

#: Forms of pages whose ids are kept: a model of 4 x 4 squares has fewer.
_KEPT = 32


class Pages:
    """How the pages of one model become sequences."""

    def __init__(self, card: Card, form: PageForm, tokens: Tokens) -> None:
        """Raises `ModelLoadFailed` for a tokenizer that knows no images, or a card too short for one."""
        place = tokens.id_of(PLACE)
        if place is None:
            raise tokens.unusable(f"it has no token {PLACE}, which stands for a part of an image")
        self._form, self._tokens = form, tokens
        self._ids_of = lru_cache(_KEPT)(self._written)
        smallest = self._ids_of(0, 0)
        if (smallest == place).sum() != form.tokens:
            raise tokens.unusable(f"it does not make one token of each {PLACE}")
        if len(smallest) > card.max_tokens:
            raise ModelLoadFailed(
                f"card '{card.name}' says max_tokens {card.max_tokens}, and a page has "
                f"{len(smallest)}; set it to at least as many"
            )

    def placed(self, pixels: NDArray[Any], rows: int = 0, columns: int = 0) -> Prepared:
        """The sequence of an image, [height, width, 3], or of its squares, [images, side, side, 3].

        Raises `InvalidItem` for one of more tokens than the model takes.
        """
        ids, limit = self._ids_of(rows, columns), self._tokens.limit
        if len(ids) > limit:
            raise InvalidItem(
                f"this image is {rows} x {columns} squares of the model, {len(ids)} tokens, and it "
                f"takes at most {limit}; send a part of it"
            )
        return Prepared(
            ids=ids, length=len(ids), input=pixels if pixels.ndim == 4 else pixels[None]
        )

    def _written(self, rows: int, columns: int) -> Ids:
        text = self._form.text(rows, columns)
        return array_of(self._tokens.ids(text, special=self._form.special))
