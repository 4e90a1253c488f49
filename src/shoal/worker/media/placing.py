"""Images among the tokens that their model reads them with: a page as one sequence."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from shoal.catalog.card import Card
from shoal.catalog.pages import PLACE, PageForm
from shoal.errors import ModelLoadFailed
from shoal.worker.prepared import Prepared
from shoal.worker.text.sequence import array_of
from shoal.worker.text.tokens import Tokens


class Pages:
    """How the pages of one model become sequences."""

    def __init__(self, card: Card, form: PageForm, tokens: Tokens) -> None:
        """Raises `ModelLoadFailed` for a tokenizer that knows no images, or a card too short for one."""
        place = tokens.id_of(PLACE)
        if place is None:
            raise tokens.unusable(f"it has no token {PLACE}, which stands for a part of an image")
        self._ids = array_of(tokens.ids(form.text, special=form.special))
        if (self._ids == place).sum() != form.tokens:
            raise tokens.unusable(f"it does not make one token of each {PLACE}")
        if len(self._ids) > card.max_tokens:
            raise ModelLoadFailed(
                f"card '{card.name}' says max_tokens {card.max_tokens}, and a page has "
                f"{len(self._ids)}; set it to at least as many"
            )

    def placed(self, pixels: NDArray[Any]) -> Prepared:
        """The sequence of an image, [height, width, 3]."""
        return Prepared(ids=self._ids, length=len(self._ids), input=pixels[None])
