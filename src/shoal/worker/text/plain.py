"""Items of runtimes that take text: nothing is tokenized, lengths are guessed from bytes."""

from __future__ import annotations

from shoal.catalog.card import Card
from shoal.errors import InvalidItem, ShoalError
from shoal.tasks.encode import Item, Media
from shoal.tasks.generate.conversation import Conversation
from shoal.values import EncodeParams, Params, estimated_features
from shoal.worker.prepared import Finish, Prepared
from shoal.worker.text.prompts import prompt_of
from shoal.worker.vectors import encoded


class PlainPreparer:
    """For runtimes that take text."""

    slow = False

    def __init__(self, card: Card) -> None:
        self._card = card

    @property
    def probe(self) -> Item:
        return "ready"

    def prepare(
        self, items: list[Item], params: Params, query: Item | None = None
    ) -> list[Prepared | ShoalError]:
        """Each text with a guessed length; anything else is an error."""
        if not isinstance(params, EncodeParams):
            error = InvalidItem(
                f"'{self._card.name}' runs where texts go in untokenized, and there it only encodes"
            )
            return [error] * len(items)
        prompt = prompt_of(self._card, params)
        finish = encoded(self._card, params)
        return [self._one(prompt, item, finish) for item in items]

    def _one(self, prompt: str, item: Item, finish: Finish | None) -> Prepared | ShoalError:
        if isinstance(item, list):
            return InvalidItem("this model takes text, not token ids")
        if isinstance(item, Media):
            return InvalidItem("this model takes text, no images or audio")
        if isinstance(item, Conversation):
            return InvalidItem("this task takes text, no conversations")
        return guessed(self._card, prompt + item, finish)


def guessed(card: Card, text: str, finish: Finish | None = None) -> Prepared:
    """A text for a runtime that takes text; its length in tokens is guessed."""
    guess = estimated_features(len(text.encode()), 1, longest=card.max_tokens)
    return Prepared(text=text, length=guess.tokens, finish=finish)
