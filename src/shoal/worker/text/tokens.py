"""One model's tokenizer: token ids of texts, and the special tokens around one text or two.

Decides how much of a long text is looked at. It must not know tasks, prompts or truncation.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
from tokenizers import Encoding

from shoal.catalog.card import Card
from shoal.catalog.pages import page_form
from shoal.errors import InvalidItem, ModelLoadFailed
from shoal.worker.prefix import CHARACTERS_PER_TOKEN, Prefixes
from shoal.worker.text.pieces import Pieces
from shoal.worker.vocabulary import read_tokenizer

#: Texts of more characters are tokenized from their start, and only as far as the model takes.
LONG = 64 * 1024


class PairFrame(msgspec.Struct, frozen=True):
    """Special ids around two texts.

    Attributes:
        of_first: how many of `between` are of the first text's token type; None: there is one type.
    """

    before: list[int]
    between: list[int]
    after: list[int]
    of_first: int | None

    @property
    def count(self) -> int:
        return len(self.before) + len(self.between) + len(self.after)


class Tokens:
    """The tokenizer of one model, which neither pads nor truncates.

    Attributes:
        limit: tokens of a sequence. `vocabulary`: ids run from 0 to here, exclusive.
        before, after: special ids around one text; of a model of pages, of a query.
    """

    def __init__(self, card: Card, folder: Path) -> None:
        """Raises `ModelLoadFailed` for a tokenizer that cannot be read, or used."""
        form = page_form(folder, card.family)
        path = folder / card.tokenizer
        self._path = path
        try:
            self._tokenizer = read_tokenizer(path)
            self._tokenizer.no_padding()
            self._tokenizer.no_truncation()
            self.vocabulary = self._tokenizer.get_vocab_size()
            around = self._around_one() if form is None or form.special else ([], [])
            self.before, self.after = around
            if form is not None:
                self.before = [*self.before, *self.ids(form.before)]
                self.after = [*self.ids(form.after), *self.after]
            self._prefixes = Prefixes(self._tokenizer)
        except BaseException as error:  # the library raises bare Exception, and panics are none
            raise self.unusable(str(error)) from None
        self.limit = card.max_tokens

    def unusable(self, why: str) -> ModelLoadFailed:
        """The error of a tokenizer that does not do what its model needs."""
        return ModelLoadFailed(
            f"tokenizer {self._path} cannot be used: {why}; replace the file, or correct "
            "`tokenizer` of the card"
        )

    def _around_one(self) -> tuple[list[int], list[int]]:
        """Special ids before and after a text, found on a one-word text."""
        encoding = self._tokenizer.encode("a")
        mask, ids = encoding.special_tokens_mask, encoding.ids
        first = mask.index(0) if 0 in mask else len(ids)
        last = len(mask) - mask[::-1].index(0) if 0 in mask else len(ids)
        return ids[:first], ids[last:]

    def around_two(self) -> PairFrame:
        """Special ids around a pair. Raises `ModelLoadFailed` for one that is laid out otherwise."""
        encoding = self._tokenizer.encode("a", "a")
        owners, ids, types = encoding.sequence_ids, encoding.ids, encoding.type_ids
        if 0 not in owners or 1 not in owners:
            raise self.unusable("it has no tokens for 'a'")
        first, second = owners.index(0), owners.index(1)
        end, last = first + owners.count(0), second + owners.count(1)
        ones = sum(types)
        if types != [0] * (len(types) - ones) + [1] * ones or first > second:
            raise self.unusable("of two texts, it does not put the first one first")
        start = len(types) - ones
        if ones and not end <= start <= second:
            raise self.unusable("a text of a pair has token types of both")
        return PairFrame(ids[:first], ids[end:second], ids[last:], start - end if ones else None)

    def id_of(self, token: str) -> int | None:
        """The id of a token of the vocabulary."""
        return self._tokenizer.token_to_id(token)

    def name_of(self, token: int) -> str | None:
        """The token of an id, as the vocabulary has it."""
        return self._tokenizer.id_to_token(token)

    def pieces(self) -> Pieces:
        """What its tokens add to a text that is generated. Raises `ModelLoadFailed`."""
        try:
            return Pieces(self._tokenizer)
        except ValueError as error:
            raise self.unusable(str(error)) from None

    def ids(self, text: str, *, special: bool = False) -> list[int]:
        """Those of a text of our own; `special`: with the tokenizer's special ones around it."""
        (encoding,) = self.located([text], special=special)
        return list(encoding.ids)

    def content(self, texts: list[str], most: int, prompt: str = "") -> Iterator[list[int]]:
        """The ids of each text behind `prompt`, without special ones.

        Of a long text only so many as tell that it has more than `most`.
        """
        longest = LONG - len(prompt)
        short = [prompt + text for text in texts if len(text) <= longest]
        encoded = iter(self._tokenizer.encode_batch_fast(short, add_special_tokens=False))
        for text in texts:
            if len(text) <= longest:
                yield next(encoded).ids
            else:
                yield self._prefixes.first_ids(prompt + text, most + 1)

    def located(self, texts: list[str], *, special: bool = False) -> list[Encoding]:
        """Each text with where its tokens lie in it, in code points, and the words they are of.

        `special`: with the model's special tokens around it.
        """
        return self._tokenizer.encode_batch(texts, add_special_tokens=special)

    def text_of(self, ids: list[int], *, special: bool) -> str:
        """What the ids stand for. Raises `InvalidItem` for one that stands for nothing."""
        self.check(ids)
        # As a batch: of one by itself the library lets no other thread run meanwhile.
        (text,) = self._tokenizer.decode_batch([ids], skip_special_tokens=not special)
        return str(text)

    def check(self, ids: list[int]) -> None:
        """Raises `InvalidItem` for an id outside the vocabulary."""
        for position, token in enumerate(ids):
            if not 0 <= token < self.vocabulary:
                raise InvalidItem(
                    f"token id {token} at position {position} is outside the vocabulary "
                    f"(0 to {self.vocabulary - 1}): send ids of the model's own tokenizer, or the text"
                )

    def of_words(self, texts: list[list[str]]) -> list[Encoding]:
        """Texts that are words already: the tokens of each word by itself."""
        return self._tokenizer.encode_batch(texts, is_pretokenized=True, add_special_tokens=False)


def shown(most_tokens: int) -> int:
    """Characters of which a text of so many tokens hardly has more."""
    return CHARACTERS_PER_TOKEN * most_tokens
