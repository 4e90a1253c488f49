"""Texts to tokens and token ids to texts: answers that no runtime is needed for."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

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

#: Characters of a text, and ids: of a text, a token takes 400 bytes here and 20 in the answer.
MOST = 512 * 1024


class _Located(NamedTuple):
    """A text and its tokens; none of one that is too long."""

    text: str
    tokens: Encoding | None


class TokenizeTexts:
    """What the model's own tokenizer makes of each item, whole: nothing is cut."""

    def __init__(self, card: Card, tokens: Tokens) -> None:
        self._card = card
        self._tokens = tokens

    def prepare(self, items: list[Item], params: TokenizeParams) -> list[Prepared | ShoalError]:
        """Each item's answer, or its error."""
        prompt = prompt_of(self._card, params)
        texts = [prompt + text for text in texts_in(items)]
        located = self._located(texts, special=params.special)
        return each(items, located, _prepared, partial(self._of_ids, params))

    def _located(self, texts: list[str], *, special: bool) -> Iterator[_Located | Prepared]:
        fit = [text for text in texts if len(text) <= MOST]
        tokens = iter(self._tokens.located(fit, special=special))
        return (_Located(text, next(tokens) if len(text) <= MOST else None) for text in texts)

    def _of_ids(self, params: TokenizeParams, ids: list[int] | Media) -> Prepared:
        if isinstance(ids, Media):
            raise InvalidItem("only texts and token ids are tokenized, no images or audio")
        if len(ids) > MOST:
            raise _too_long(len(ids), "token ids")
        text = self._tokens.text_of(ids, special=params.special)
        return Prepared(length=len(ids), answer=told_of_ids(text))


def _prepared(found: _Located | Prepared) -> Prepared:
    if isinstance(found, Prepared):
        return found
    text, encoding = found
    if encoding is None:
        raise _too_long(len(text), "characters")
    of = zip(
        encoding.ids,
        encoding.tokens,
        encoding.special_tokens_mask,
        encoding.offsets,
        strict=True,
    )
    told = told_of_text(text, (Piece(i, t, bool(s), *at) for i, t, s, at in of))
    return Prepared(length=len(encoding.ids), answer=told)


def _too_long(count: int, what: str) -> InvalidItem:
    return InvalidItem(
        f"this item has {count} {what}, and at most {MOST} are taken at once; send it in parts"
    )
