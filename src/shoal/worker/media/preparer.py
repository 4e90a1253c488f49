"""Items of models whose runtime takes decoded media, and texts beside them.

Runs in the preparing threads. An image or sound becomes arrays here; texts go the way of all texts.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from shoal.catalog.card import Card
from shoal.catalog.families import FAMILIES
from shoal.errors import InvalidItem, InvalidRequest, ShoalError
from shoal.settings import WorkerSettings
from shoal.tasks.encode import Item, Media
from shoal.values import EncodeParams, ExtractParams, Params
from shoal.worker.labels import Classifier, classifier_of
from shoal.worker.media.decoding import Decoded, Decoder, ImageDecoder, SoundDecoder
from shoal.worker.media.files import PIXEL, SILENCE
from shoal.worker.media.transcripts import Transcripts
from shoal.worker.prepared import Finish, Prepared, several
from shoal.worker.text import TextPreparer

#: What makes an answer of a file's rows.
Finisher = Callable[[Decoded], Finish]


class DecodingPreparer:
    """What one model takes, its files decoded."""

    def __init__(self, card: Card, folder: Path, settings: WorkerSettings) -> None:
        """Raises `ModelLoadFailed` where a library or a file of the model's folder is missing."""
        self._card = card
        self._inputs = " or ".join(card.inputs)
        self._texts = TextPreparer(card, folder) if "text" in card.inputs else None
        self._decoder: Decoder = (
            SoundDecoder(card.family, folder, settings)
            if "audio" in card.inputs
            else ImageDecoder(card.family, folder, settings)
        )
        self._transcripts: Transcripts | None = None
        self._classifier: Classifier | None = None
        task = card.tasks.extract
        if task is not None and task.head == "transcript":
            self._transcripts = Transcripts(card, folder)
        if task is not None and task.head == "image-labels":
            self._classifier = classifier_of(card, task, folder)

    @property
    def probe(self) -> Item:
        return Media(PIXEL if "image" in self._card.inputs else SILENCE)

    def prepare(
        self, items: list[Item], params: Params, query: Item | None = None
    ) -> list[Prepared | ShoalError]:
        """Each item, or its error."""
        finisher = self._finisher(params)
        others: list[Item] = [item for item in items if not isinstance(item, Media)]
        texts = iter(self._others(others, params, query))
        return [
            self._media(item, finisher) if isinstance(item, Media) else next(texts)
            for item in items
        ]

    def _finisher(self, params: Params) -> Finisher | None:
        """None: as all outputs are finished. Raises `InvalidRequest` where nothing can be made."""
        if isinstance(params, EncodeParams):
            return None
        if isinstance(params, ExtractParams) and self._transcripts is not None:
            return self._transcripts.finish
        if isinstance(params, ExtractParams) and self._classifier is not None:
            labels = self._classifier.labels(params)
            return lambda decoded: labels
        raise InvalidRequest(f"'{self._card.name}' does not do this task")

    def _others(
        self, items: list[Item], params: Params, query: Item | None
    ) -> list[Prepared | ShoalError]:
        if self._texts is not None and isinstance(params, EncodeParams):
            return self._texts.prepare(items, params, query)
        return [
            InvalidItem(
                f"this model takes {self._inputs}, no "
                + ("text" if isinstance(item, str) else "token ids")
            )
            for item in items
        ]

    def _media(self, item: Media, finisher: Finisher | None) -> Prepared | ShoalError:
        if item.kind is not None and item.kind not in self._card.inputs:
            return InvalidItem(f"this model takes {self._inputs}, no {item.kind}")
        if not item.data:
            return InvalidItem("this item is empty")
        try:
            decoded = self._decoder.decode(item.data)
        except ShoalError as error:
            return error
        finish = None if finisher is None else finisher(decoded)
        if len(decoded.arrays) > 1:
            if finish is None:
                return InvalidItem(
                    f"this sound lasts {decoded.seconds:.1f} s, and one vector is of "
                    f"{decoded.starts_s[1]:.1f} s at most; send it in parts"
                )
            return several([self._sequence(array) for array in decoded.arrays], finish)
        return self._sequence(decoded.arrays[0], finish)

    def _sequence(self, array: NDArray[Any], finish: Finish | None = None) -> Prepared:
        """It counts as the longest text does: a model sees all of them in one size."""
        return Prepared(input=array, length=self._card.max_tokens, finish=finish)


def decodes(card: Card) -> bool:
    """Whether the runtime's code for this card's family takes its media decoded."""
    return set(card.inputs) <= {"text", *FAMILIES[card.family].media}
