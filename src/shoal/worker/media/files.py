"""Items of models that take images or audio: the bytes of a file each, or a text beside them.

Runs in the preparing threads. Nothing is decoded here: what a file holds is the runtime's matter.
"""

from __future__ import annotations

import base64

from shoal.catalog.card import Card
from shoal.errors import InvalidItem, InvalidRequest, ShoalError
from shoal.tasks.encode import Item, Media
from shoal.values import EncodeParams, Params
from shoal.worker.prepared import Finish, Prepared
from shoal.worker.text import guessed, prompt_of
from shoal.worker.vectors import encoded

#: What an image or audio counts on a batch, and on its cost: a token each so many bytes.
BYTES_PER_TOKEN = 1024

#: The smallest files that are whole: one black pixel as PNG, one silent sample as WAV.
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
)
SILENCE = base64.b64decode("UklGRiYAAABXQVZFZm10IBAAAAABAAEAgD4AAAB9AAACABAAZGF0YQIAAAAAAA==")


class MediaPreparer:
    """What one model takes."""

    slow = False

    def __init__(self, card: Card) -> None:
        self._card = card
        self._inputs = " or ".join(card.inputs)

    @property
    def probe(self) -> Item:
        if "text" in self._card.inputs:
            return "ready"
        return Media(PIXEL if "image" in self._card.inputs else SILENCE)

    def prepare(
        self, items: list[Item], params: Params, query: Item | None = None
    ) -> list[Prepared | ShoalError]:
        """Each item, or its error."""
        if not isinstance(params, EncodeParams):
            raise InvalidRequest(
                f"'{self._card.name}' runs where files go in as they are, and there it only encodes"
            )
        prompt = prompt_of(self._card, params)
        finish = encoded(self._card, params)
        return [self._one(prompt, item, finish) for item in items]

    def _one(self, prompt: str, item: Item, finish: Finish | None) -> Prepared | ShoalError:
        match item:
            case Media(data, kind) if kind is None or kind in self._card.inputs:
                if not data:
                    return InvalidItem("this item is empty")
                return Prepared(media=data, length=1 + len(data) // BYTES_PER_TOKEN, finish=finish)
            case str() if "text" in self._card.inputs:
                return guessed(self._card, prompt + item, finish)
        given = item.kind if isinstance(item, Media) else "text" if isinstance(item, str) else None
        return InvalidItem(f"this model takes {self._inputs}, no {given or 'token ids'}")
