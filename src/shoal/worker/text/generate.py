"""Texts and conversations that a model goes on with: prompts, how tokens are chosen, how text is made of them.

Decides how long a prompt may be: none is ever cut. It must not know batches, runtimes or files of images.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, assert_never

import msgspec
from numpy.typing import NDArray

from shoal.catalog.card import Card
from shoal.catalog.families import FAMILIES
from shoal.errors import InvalidItem, InvalidRequest, ShoalError, TooManyTokens
from shoal.tasks.encode import Item, Media
from shoal.tasks.generate.answer import Answer, Plain
from shoal.tasks.generate.conversation import Conversation, Picture
from shoal.values import GenerateParams
from shoal.worker.prepared import Prepared
from shoal.worker.text.conversing import Asked, Conversing
from shoal.worker.text.sampling import Defaults
from shoal.worker.text.sequence import array_of
from shoal.worker.text.template import eos_token, read_template
from shoal.worker.text.tokens import Tokens
from shoal.worker.text.writing import Manner, TextWriting


class Shown(NamedTuple):
    """A prompt with images in it as the model reads them, and their `pixels`, if there are any."""

    prompt: str
    pixels: NDArray[Any] | None


class Shows(Protocol):
    """Decodes images of conversations."""

    def shown(self, prompt: str, pictures: tuple[Picture, ...]) -> Shown:
        """What a prompt becomes. Raises `ShoalError`."""
        ...


class GenerateTexts:
    """One sequence an item."""

    def __init__(
        self, card: Card, tokens: Tokens, folder: Path, shows: Shows | None = None
    ) -> None:
        """`shows`: of a model that reads images.

        Raises `ModelLoadFailed` for a tokenizer or files that do not do what is needed.
        """
        task = card.tasks.generate
        assert task is not None, "the card says `generate`"
        self._name = card.name
        self._tokens, self._shows = tokens, shows
        self._pieces = tokens.pieces()
        self._anew = FAMILIES[card.family].anew
        eos = eos_token(folder)
        self._defaults = Defaults(folder, task, None if eos is None else tokens.id_of(eos))
        template = read_template(folder, task.chat_template, self._ends())
        self._conversing = None if template is None else Conversing(card, template)
        marks = () if self._conversing is None else self._conversing.marks
        self._hidden, self._hidden_in_chats = self._pieces.hidden(), self._pieces.hidden(marks)

    def _ends(self) -> dict[str, str]:
        """The names of what texts begin and end with, for templates."""
        ends = self._defaults.stop
        ids = {"bos_token": self._defaults.begin, "eos_token": ends[0] if ends else None}
        names = {key: None if i is None else self._tokens.name_of(i) for key, i in ids.items()}
        return {key: name for key, name in names.items() if name is not None}

    def prepare(self, items: list[Item], params: GenerateParams) -> list[Prepared | ShoalError]:
        """Each item as a prompt with what is to become of it, or its error.

        Raises `InvalidRequest` for what this model can do with no item.
        """
        chat = self._chat(params) if params.chat else None
        return [self._one(item, chat, params) for item in items]

    def _chat(self, params: GenerateParams) -> Asked:
        if self._conversing is None:
            raise InvalidRequest(
                f"'{self._name}' takes no conversations, as it has no chat template; send a text, or "
                "give its card a `chat_template`"
            )
        return self._conversing.asked(params)

    def _one(self, item: Item, chat: Asked | None, params: GenerateParams) -> Prepared | ShoalError:
        try:
            if chat is None:
                return self._prepared(self._ids(item), params, Plain, self._hidden)
            assert isinstance(item, Conversation), "items are read as what `chat` says"
            prompt = chat.render(item)
            shown, pixels = self._shown(prompt, item.pictures)
            # The template wrote the special tokens.
            ids, answer = self._content(shown), chat.answer(prompt)
            prepared = self._prepared(ids, params, answer, self._hidden_in_chats, chat.grammar)
            return prepared if pixels is None else msgspec.structs.replace(prepared, input=pixels)
        except ShoalError as error:
            return error

    def _shown(self, prompt: str, pictures: tuple[Picture, ...]) -> Shown:
        if self._shows is not None:
            return self._shows.shown(prompt, pictures)
        if pictures:
            raise InvalidItem(f"{pictures[0].where} is an image, and '{self._name}' takes text")
        return Shown(prompt, None)

    def _ids(self, item: Item) -> list[int]:
        """Ids of the caller's are taken as they are."""
        match item:
            case str():
                return [*self._tokens.before, *self._content(item), *self._tokens.after]
            case list():
                self._tokens.check(item)
                return item
            case Media():
                raise InvalidItem("this model takes text, no images or audio")
            case Conversation():
                raise InvalidItem("this is a conversation; ask for it as one (`chat`)")
            case _:
                assert_never(item)

    def _content(self, text: str) -> list[int]:
        (ids,) = self._tokens.content([text], self._tokens.limit)
        return ids

    def _room(self, prompt: int) -> int:
        """Tokens that may follow a prompt of so many. Raises `TooManyTokens`."""
        limit = self._tokens.limit
        room = limit if self._anew else limit - prompt
        if prompt > limit or room < 1:
            most = limit if self._anew else limit - 1
            # Of a long text no more was looked at than tells that it is too long.
            said = f"more than {limit}" if prompt > limit else prompt
            raise TooManyTokens(
                f"this prompt has {said} tokens and the model takes at most {most}, as one that is "
                "generated must find room; shorten it: prompts are never cut"
            )
        return room

    def _prepared(
        self,
        ids: list[int],
        params: GenerateParams,
        answer: Callable[[], Answer],
        hidden: frozenset[int],
        grammar: tuple[str, str] | None = None,
    ) -> Prepared:
        room = self._room(len(ids))
        named = [self._pieces.special.get(text) for text in params.stop]
        manner = Manner(
            bytes_of=self._pieces.of,
            hidden=hidden,
            answer=answer,
            prompt_tokens=len(ids),
            stop=params.stop,
            # An answer stands by itself; a text goes on with its prompt, and a space is between.
            spaced=self._pieces.spaced and (params.chat or self._anew),
        )
        return Prepared(
            ids=array_of(ids),
            length=len(ids),
            sampling=self._defaults.sampling(
                params,
                room,
                self._tokens.vocabulary,
                stop=[token for token in named if token is not None],
                grammar=grammar,
            ),
            write=partial(TextWriting, manner),
        )
