"""Texts to token ids for one model: special tokens, prompts, truncation, range checks.

Runs in the preparing thread, never on the event loop. Knows a tokenizer file, no runtime.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from shoal.catalog.card import Card
from shoal.errors import InvalidItem, ModelLoadFailed, ShoalError, TooManyTokens
from shoal.tasks.encode import Item, Media
from shoal.values import EncodeParams, Params, estimated_features
from shoal.worker.prefix import Prefixes
from shoal.worker.vocabulary import read_tokenizer

Ids = NDArray[np.int32]

#: Texts of more characters are tokenized from their start, and only as far as the model takes.
LONG = 64 * 1024


class Prepared(msgspec.Struct, frozen=True):
    """One item ready for a batch: token ids [n] int32, or the text or the bytes of a file, for
    runtimes that take those.

    Attributes:
        split: of two texts, how many of the ids are the first's with its special tokens.
        input: what a file was decoded to, as `Run.inputs` takes it; then there are no ids.
    """

    ids: Ids | None = None
    text: str | None = None
    media: bytes | None = None
    length: int = 0
    truncated: bool = False
    split: int = 0
    input: NDArray[Any] | None = None


class Preparer(Protocol):
    """How the items of one model are prepared for its runtime."""

    @property
    def probe(self) -> Item:
        """An item that costs next to nothing."""
        ...

    def prepare(self, items: list[Item], params: Params) -> list[Prepared | ShoalError]:
        """Each item ready for a batch, or its error."""
        ...


class TextPreparer:
    """Tokenizer and limits of one model."""

    def __init__(self, card: Card, folder: Path) -> None:
        """Raises `ModelLoadFailed` for a tokenizer that cannot be read, or used."""
        path = folder / card.tokenizer
        self._limit = card.max_tokens
        self._card = card
        try:
            self._tokenizer = read_tokenizer(path)
            self._tokenizer.no_padding()
            self._tokenizer.no_truncation()
            self._vocabulary = self._tokenizer.get_vocab_size()
            self._prefix, self._suffix = self._specials()
            self._prefixes = Prefixes(self._tokenizer)
        except BaseException as error:  # the library raises bare Exception, and panics are none
            raise ModelLoadFailed(
                f"tokenizer {path} cannot be used: {error}; replace the file, or correct "
                "`tokenizer` of the card"
            ) from None
        self._room = self._limit - len(self._prefix) - len(self._suffix)

    def _specials(self) -> tuple[list[int], list[int]]:
        """Special ids before and after a text, found on a one-word text."""
        encoding = self._tokenizer.encode("a")
        mask, ids = encoding.special_tokens_mask, encoding.ids
        first = mask.index(0) if 0 in mask else len(ids)
        last = len(mask) - mask[::-1].index(0) if 0 in mask else len(ids)
        return ids[:first], ids[last:]

    @property
    def probe(self) -> Item:
        return "ready"

    def prepare(self, items: list[Item], params: Params) -> list[Prepared | ShoalError]:
        """Token ids of each item, or its error."""
        prompt = prompt_of(self._card, params)
        texts = [item for item in items if isinstance(item, str)]
        encoded = iter(self._tokenized(prompt, texts))
        out: list[Prepared | ShoalError] = []
        for item in items:
            try:
                ids = next(encoded) if isinstance(item, str) else self._content(item, params)
                out.append(self._fit(ids, params.truncate))
            except ShoalError as error:
                out.append(error)
        return out

    def _tokenized(self, prompt: str, texts: list[str]) -> Iterator[list[int]]:
        """The ids of each text; of a long one, only so many as tell that it is too long."""
        short = [prompt + text for text in texts if len(text) <= LONG]
        encoded = iter(self._tokenizer.encode_batch_fast(short, add_special_tokens=False))
        for text in texts:
            if len(text) <= LONG:
                yield next(encoded).ids
            else:
                yield self._prefixes.first_ids(prompt + text, self._room + 1)

    def _content(self, ids: list[int] | Media, params: Params) -> list[int]:
        """Checked token ids without special tokens, whether the caller added them or not."""
        if isinstance(ids, Media):
            raise InvalidItem("this model takes text, no images or audio")
        if isinstance(params, EncodeParams) and params.prompt and prompt_of(self._card, params):
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
        truncated = len(content) > self._room
        if truncated and not truncate:
            count = len(content) + len(self._prefix) + len(self._suffix)
            # Of a long text no more was looked at than tells that it is too long.
            said = count if count > self._limit + 1 else f"more than {self._limit}"
            raise TooManyTokens(
                f"this item has {said} tokens but the model takes at most {self._limit}; "
                "shorten it or leave truncation on"
            )
        ids = np.array([*self._prefix, *content[: self._room], *self._suffix], dtype=np.int32)
        if not len(ids):
            raise InvalidItem("this item is empty and the model has no special tokens")
        return Prepared(ids=ids, length=len(ids), truncated=truncated)


class PlainPreparer:
    """For runtimes that take text: nothing is tokenized, lengths are guessed from bytes."""

    def __init__(self, card: Card) -> None:
        self._card = card

    @property
    def probe(self) -> Item:
        return "ready"

    def prepare(self, items: list[Item], params: Params) -> list[Prepared | ShoalError]:
        """Each text with a guessed length; anything else is an error."""
        prompt = prompt_of(self._card, params)
        return [self._one(prompt, item) for item in items]

    def _one(self, prompt: str, item: Item) -> Prepared | ShoalError:
        if isinstance(item, list):
            return InvalidItem("this model takes text, not token ids")
        if isinstance(item, Media):
            return InvalidItem("this model takes text, no images or audio")
        return guessed(self._card, prompt + item)


def guessed(card: Card, text: str) -> Prepared:
    """A text for a runtime that takes text; its length in tokens is guessed."""
    guess = estimated_features(len(text.encode()), 1).tokens
    return Prepared(text=text, length=min(card.max_tokens, guess))


def prompt_of(card: Card, params: Params) -> str:
    """What comes before each text: the card's prompt of the name asked, else its default one."""
    task = card.tasks.encode
    if task is None or not isinstance(params, EncodeParams):
        return ""
    return task.prompts.get(params.prompt or task.default_prompt or "", "")
