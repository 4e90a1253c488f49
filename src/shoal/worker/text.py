"""Texts to token ids for one model: special tokens, prompts, truncation, range checks.

Runs in the preparing thread, never on the event loop. Knows a tokenizer file, no runtime.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from shoal.catalog.card import Card
from shoal.errors import InvalidItem, ModelLoadFailed, ShoalError, TooManyTokens
from shoal.values import EncodeParams, estimated_features

Ids = NDArray[np.int32]


class Prepared(msgspec.Struct, frozen=True):
    """One item ready for a batch: token ids [n] int32, or the text for runtimes that take text."""

    ids: Ids | None = None
    text: str | None = None
    length: int = 0
    truncated: bool = False


class TextPreparer:
    """Tokenizer and limits of one model."""

    def __init__(self, card: Card, folder: Path) -> None:
        path = folder / card.tokenizer
        try:
            self._tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises bare Exception for everything
            raise ModelLoadFailed(f"tokenizer {path} cannot be read: {error}") from None
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._limit = card.max_tokens
        self._card = card
        self._vocabulary = self._tokenizer.get_vocab_size()
        self._prefix, self._suffix = self._specials()

    def _specials(self) -> tuple[list[int], list[int]]:
        """Special ids before and after a text, found on a one-word text."""
        encoding = self._tokenizer.encode("a")
        mask, ids = encoding.special_tokens_mask, encoding.ids
        first = mask.index(0) if 0 in mask else len(ids)
        last = len(mask) - mask[::-1].index(0) if 0 in mask else len(ids)
        return ids[:first], ids[last:]

    def prepare(
        self, items: list[str | list[int]], params: EncodeParams
    ) -> list[Prepared | ShoalError]:
        """Token ids of each item, or its error."""
        prompt = _prompt(self._card, params.prompt)
        texts = [prompt + item for item in items if isinstance(item, str)]
        encoded = iter(self._tokenizer.encode_batch_fast(texts, add_special_tokens=False))
        out: list[Prepared | ShoalError] = []
        for item in items:
            try:
                ids = next(encoded).ids if isinstance(item, str) else self._content(item, params)
                out.append(self._fit(ids, params.truncate))
            except ShoalError as error:
                out.append(error)
        return out

    def _content(self, ids: list[int], params: EncodeParams) -> list[int]:
        """Checked token ids without special tokens, whether the caller added them or not."""
        if params.prompt is not None and _prompt(self._card, params.prompt):
            raise InvalidItem("a prompt cannot be put before token ids; send text, or no prompt")
        for position, token in enumerate(ids):
            if not 0 <= token < self._vocabulary:
                raise InvalidItem(
                    f"token id {token} at position {position} is outside the vocabulary "
                    f"(0 to {self._vocabulary - 1})"
                )
        first, last = len(self._prefix), len(ids) - len(self._suffix)
        wrapped = first <= last and ids[:first] == self._prefix and ids[last:] == self._suffix
        return ids[first:last] if wrapped else ids

    def _fit(self, content: list[int], truncate: bool) -> Prepared:
        room = self._limit - len(self._prefix) - len(self._suffix)
        truncated = len(content) > room
        if truncated and not truncate:
            count = len(content) + len(self._prefix) + len(self._suffix)
            raise TooManyTokens(
                f"this item has {count} tokens but the model takes at most {self._limit}; "
                "shorten it or leave truncation on"
            )
        ids = np.array([*self._prefix, *content[:room], *self._suffix], dtype=np.int32)
        if not len(ids):
            raise InvalidItem("this item is empty and the model has no special tokens")
        return Prepared(ids=ids, length=len(ids), truncated=truncated)


class PlainPreparer:
    """For runtimes that take text: nothing is tokenized, lengths are guessed from bytes."""

    def __init__(self, card: Card) -> None:
        self._card = card

    def prepare(
        self, items: list[str | list[int]], params: EncodeParams
    ) -> list[Prepared | ShoalError]:
        """Each text with a guessed length; token ids are an error."""
        prompt = _prompt(self._card, params.prompt)
        return [self._one(prompt, item) for item in items]

    def _one(self, prompt: str, item: str | list[int]) -> Prepared | ShoalError:
        if isinstance(item, list):
            return InvalidItem("this model takes text, not token ids")
        text = prompt + item
        guess = estimated_features(len(text.encode()), 1).tokens
        return Prepared(text=text, length=min(self._card.max_tokens, guess))


def _prompt(card: Card, name: str | None) -> str:
    """What comes before each text: the card's prompt of this name, else its default one."""
    task = card.tasks.encode
    return "" if task is None else task.prompts.get(name or task.default_prompt or "", "")


Preparer = TextPreparer | PlainPreparer
