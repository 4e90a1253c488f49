"""Texts to tokens and token ids to texts: answers that no runtime is needed for."""

from __future__ import annotations

from functools import partial

from tokenizers import Encoding

from shoal.catalog.card import Card
from shoal.errors import InvalidItem, ShoalError
from shoal.tasks.encode import Item, Media
from shoal.tasks.tokenize import Piece, told_of_ids, told_of_text
from shoal.values import TokenizeParams
from shoal.worker.prepared import Prepared
from shoal.worker.text.prompts import prompt_of
from shoal.worker.text.sequence import each, texts_in
from shoal.worker.text.tokens import Tokens


class TokenizeTexts:
    """What the model's own tokenizer makes of each item, whole: nothing is cut."""

    def __init__(self, card: Card, tokens: Tokens) -> None:
        self._card = card
        self._tokens = tokens

    def prepare(self, items: list[Item], params: TokenizeParams) -> list[Prepared | ShoalError]:
        """Each item's answer, or its error."""
        prompt = prompt_of(self._card, params)
        texts = [prompt + text for text in texts_in(items)]
        located = zip(texts, self._tokens.located(texts, special=params.special), strict=True)
        return each(items, map(_of_text, located), _as_it_is, partial(self._of_ids, params))

    def _of_ids(self, params: TokenizeParams, ids: list[int] | Media) -> Prepared:
        if isinstance(ids, Media):
            raise InvalidItem("only texts and token ids are tokenized, no images or audio")
        text = self._tokens.text_of(ids, special=params.special)
        return Prepared(length=len(ids), answer=told_of_ids(text))


def _of_text(text_and_tokens: tuple[str, Encoding]) -> Prepared:
    text, encoding = text_and_tokens
    of = zip(
        encoding.ids,
        encoding.tokens,
        encoding.special_tokens_mask,
        encoding.offsets,
        strict=True,
    )
    told = told_of_text(text, (Piece(i, t, bool(s), *at) for i, t, s, at in of))
    return Prepared(length=len(encoding.ids), answer=told)


def _as_it_is(prepared: Prepared) -> Prepared:
    return prepared
