"""Texts and conversations that a model goes on with: prompts, how tokens are chosen, how text is made of them.

Decides how long a prompt may be: none is ever cut. It must not know batches or runtimes.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from shoal.catalog.card import Card
from shoal.catalog.families import FAMILIES
from shoal.errors import InvalidItem, InvalidRequest, ShoalError, TooManyTokens
from shoal.tasks.encode import Item, Media
from shoal.tasks.generate.answer import Plain
from shoal.tasks.generate.conversation import Conversation
from shoal.values import GenerateParams
from shoal.worker.prepared import Prepared
from shoal.worker.text.sampling import Defaults
from shoal.worker.text.sequence import array_of
from shoal.worker.text.template import ChatTemplate, Tools, eos_token, read_template
from shoal.worker.text.tokens import Tokens
from shoal.worker.text.writing import Manner, TextWriting


class GenerateTexts:
    """One sequence an item."""

    def __init__(self, card: Card, tokens: Tokens, folder: Path) -> None:
        """Raises `ModelLoadFailed` for a tokenizer or files that do not do what is needed."""
        task = card.tasks.generate
        assert task is not None, "the card says `generate`"
        self._name = card.name
        self._tokens = tokens
        self._pieces = tokens.pieces()
        self._anew = FAMILIES[card.family].anew
        eos = eos_token(folder)
        self._defaults = Defaults(folder, task, None if eos is None else tokens.id_of(eos))
        self._template = read_template(folder, task.chat_template, self._ends())

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
        asked = _Asked(self._chat() if params.chat else None, params)
        return [self._one(item, asked, params) for item in items]

    def _chat(self) -> ChatTemplate:
        if self._template is None:
            raise InvalidRequest(
                f"'{self._name}' takes no conversations, as it has no chat template; send a text, or "
                "give its card a `chat_template`"
            )
        return self._template

    def _one(self, item: Item, asked: _Asked, params: GenerateParams) -> Prepared | ShoalError:
        try:
            ids = self._ids(item, asked)
            room = self._room(len(ids))
            return self._prepared(ids, room, params)
        except ShoalError as error:
            return error

    def _ids(self, item: Item, asked: _Asked) -> list[int]:
        """A template writes the special tokens itself; ids are taken as they are."""
        match item:
            case Conversation():
                return self._content(asked.render(item))
            case str():
                return [*self._tokens.before, *self._content(item), *self._tokens.after]
            case Media():
                raise InvalidItem("this model takes text, no images or audio")
        self._tokens.check(item)
        return item

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

    def _prepared(self, ids: list[int], room: int, params: GenerateParams) -> Prepared:
        named = [self._pieces.special.get(text) for text in params.stop]
        manner = Manner(
            bytes_of=self._pieces.of,
            hidden=self._pieces.hidden(),
            answer=Plain,
            prompt_tokens=len(ids),
            stop=params.stop,
            anew=self._anew,
        )
        return Prepared(
            ids=array_of(ids),
            length=len(ids),
            sampling=self._defaults.sampling(
                params,
                room,
                self._tokens.vocabulary,
                stop=[token for token in named if token is not None],
            ),
            write=partial(TextWriting, manner),
        )


class _Asked:
    """What is asked of all items of a unit, read once."""

    def __init__(self, template: ChatTemplate | None, params: GenerateParams) -> None:
        self._template = template
        self._tools: Tools = msgspec.json.decode(params.tools) if params.tools else []
        self._variables: dict[str, Any] = (
            msgspec.json.decode(params.template) if params.template else {}
        )

    def render(self, conversation: Conversation) -> str:
        assert self._template is not None, "items are conversations where `chat` says so"
        return self._template.render(conversation, self._tools, self._variables)
