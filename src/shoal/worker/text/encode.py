"""Texts to encode: prompts, special tokens, truncation, range checks of token ids."""

from __future__ import annotations

from functools import partial

from shoal.catalog.card import Card
from shoal.errors import InvalidItem, ShoalError
from shoal.tasks.encode import Item, Media
from shoal.values import EncodeParams
from shoal.worker.prepared import Prepared
from shoal.worker.text.prompts import prompt_of
from shoal.worker.text.sequence import Frame, each, texts_in
from shoal.worker.text.tokens import Tokens


class EncodeTexts:
    """One sequence an item."""

    def __init__(self, card: Card, tokens: Tokens) -> None:
        self._card = card
        self._tokens = tokens
        self._frame = Frame(tokens.before, tokens.after, tokens.limit)

    def prepare(self, items: list[Item], params: EncodeParams) -> list[Prepared | ShoalError]:
        """Token ids of each item, or its error."""
        prompt = prompt_of(self._card, params)
        contents = self._tokens.content(texts_in(items), self._frame.room, prompt)
        made = partial(self._frame.fit, truncate=params.truncate)
        return each(items, contents, made, partial(self._content, params))

    def _content(self, params: EncodeParams, ids: list[int] | Media) -> list[int]:
        """Checked token ids without special tokens, whether the caller added them or not."""
        if isinstance(ids, Media):
            raise InvalidItem("this model takes text, no images or audio")
        if params.prompt and prompt_of(self._card, params):
            raise InvalidItem("a prompt cannot be put before token ids; send text, or no prompt")
        tokens = self._tokens
        for position, token in enumerate(ids):
            if not 0 <= token < tokens.vocabulary:
                raise InvalidItem(
                    f"token id {token} at position {position} is outside the vocabulary "
                    f"(0 to {tokens.vocabulary - 1})"
                )
        first, last = len(tokens.before), len(ids) - len(tokens.after)
        wrapped = first <= last and ids[:first] == tokens.before and ids[last:] == tokens.after
        return ids[first:last] if wrapped else ids
