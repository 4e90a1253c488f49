"""Texts to encode: prompts, special tokens, truncation, range checks of token ids."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import msgspec
import numpy as np
from numpy.typing import NDArray

from shoal.catalog.card import Card
from shoal.errors import InvalidItem, ShoalError
from shoal.tasks.encode import Item, Media
from shoal.tasks.outputs import of_tokens
from shoal.values import EncodeParams
from shoal.worker.prepared import Finish, Prepared
from shoal.worker.text.prompts import check_room, is_query, prompt_of
from shoal.worker.text.sequence import Frame, each, text_only, texts_in
from shoal.worker.text.tokens import Tokens
from shoal.worker.vectors import encoded

#: Given which tokens of a sequence get a vector (None: all), what is made of their rows.
FinishOf = Callable[[NDArray[np.bool_] | None], Finish | None]

#: What queries are filled with, by the models' own names for it.
_MASKS = ("[MASK]", "<mask>")


class _Form(msgspec.Struct, frozen=True):
    """How texts of one prompt become sequences.

    Attributes:
        prompt: text before each; a marker token is part of the frame.
        fill: sequences have at least so many tokens.
        skip: tokens that get no vector.
    """

    frame: Frame
    prompt: str
    fill: int = 0
    skip: tuple[int, ...] = ()


class EncodeTexts:
    """One sequence an item."""

    def __init__(self, card: Card, tokens: Tokens) -> None:
        """Raises `ModelLoadFailed` where queries are to be filled and there is no mask token."""
        self._card = card
        self._tokens = tokens
        task = card.tasks.encode
        self._multivector = task.multivector if task is not None else None
        skip = self._multivector.skip if self._multivector is not None else []
        self._skip = tuple(n for word in skip if (n := tokens.id_of(word)) is not None)
        masks = [number for name in _MASKS if (number := tokens.id_of(name)) is not None]
        if self._multivector is not None and self._multivector.filled and not masks:
            raise tokens.unusable("`query_tokens` fills queries with a mask token, and it has none")
        self._mask = masks[0] if masks else 0
        self._plain = Frame(tokens.before, tokens.after, tokens.limit)

    def prepare(self, items: list[Item], params: EncodeParams) -> list[Prepared | ShoalError]:
        """Token ids of each item, or its error.

        Raises `InvalidRequest` for an instruction that leaves no room for a text.
        """
        form = self._form(params, query=is_query(self._card, params))
        content_of = partial(self._content, params)
        if not of_tokens(params.outputs):
            made = partial(form.frame.fit, truncate=params.truncate)
            return each(items, self._contents(items, form), made, content_of)
        finish_of = partial(encoded, self._card, params)
        made = partial(self._with_tokens, form, finish_of, truncate=params.truncate)
        return each(items, self._contents(items, form), made, content_of)

    def compared(
        self,
        items: list[Item],
        params: EncodeParams,
        finish_of: FinishOf | None,
        *,
        query: bool,
    ) -> list[Prepared | ShoalError]:
        """The same for texts alone, whose rows are no answer by themselves."""
        form = self._form(params, query=query)
        made = partial(self._with_tokens, form, finish_of, truncate=params.truncate)
        return each(items, self._contents(items, form), made, text_only)

    def _contents(self, items: list[Item], form: _Form) -> Iterator[list[int]]:
        return self._tokens.content(texts_in(items), form.frame.room, form.prompt)

    def _form(self, params: EncodeParams, *, query: bool) -> _Form:
        prompt = prompt_of(self._card, params)
        if params.instruction is not None:
            check_room(self._tokens, prompt, self._plain.room)
        vectors = self._multivector
        if vectors is None:
            return _Form(self._plain, prompt)
        most, fill = self._tokens.limit, 0
        if query and of_tokens(params.outputs):
            most, fill = min(vectors.query_tokens or most, most), vectors.filled
        marker, rest = self._marker(prompt)
        frame = Frame([*self._tokens.before, *marker], self._tokens.after, most)
        return _Form(frame, rest, fill, () if query else self._skip)

    def _marker(self, prompt: str) -> tuple[list[int], str]:
        """The token that tells queries and documents apart, and the prompt behind it.

        Models that compare late have one such as ``[unused0]`` or ``[Q] `` right behind the first
        special token, which tokenizers would take apart in a text.
        """
        first, space, _ = prompt.partition(" ")
        for marker in (prompt, first + space, first):
            if marker.startswith("[") and (number := self._tokens.id_of(marker)) is not None:
                return [number], prompt.removeprefix(marker).lstrip()
        return [], prompt

    def _with_tokens(
        self,
        form: _Form,
        finish_of: FinishOf | None,
        content: list[int],
        *,
        truncate: bool,
    ) -> Prepared:
        """A sequence of which each token's vector counts."""
        sequence = form.frame.fit(content, truncate=truncate)
        assert sequence.ids is not None
        ids, seen = sequence.ids, 0
        if len(ids) < form.fill:
            seen = len(ids)
            ids = np.concatenate([ids, np.full(form.fill - len(ids), self._mask, np.int32)])
        keep = ~np.isin(ids, form.skip) if form.skip else None
        finish = finish_of(keep) if finish_of is not None else None
        return Prepared(
            ids=ids, length=len(ids), truncated=sequence.truncated, finish=finish, seen=seen
        )

    def _content(self, params: EncodeParams, ids: list[int] | Media) -> list[int]:
        """Checked token ids without special tokens, whether the caller added them or not."""
        if isinstance(ids, Media):
            raise InvalidItem("this model takes text, no images or audio")
        asked = "an instruction" if params.instruction else params.prompt and "a prompt"
        if asked and prompt_of(self._card, params):
            raise InvalidItem(f"{asked} cannot be put before token ids; send text, or do without")
        tokens = self._tokens
        tokens.check(ids)
        first, last = len(tokens.before), len(ids) - len(tokens.after)
        wrapped = first <= last and ids[:first] == tokens.before and ids[last:] == tokens.after
        return ids[first:last] if wrapped else ids
