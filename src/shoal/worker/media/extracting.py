"""What is read from images and sound: labels, labels of a caller's own, transcripts, text."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from shoal.catalog.card import Card
from shoal.catalog.document import read_json
from shoal.catalog.families import CHARACTERS
from shoal.errors import InvalidRequest, ModelLoadFailed, ShoalError
from shoal.tasks.matching import TEMPLATE, Matches
from shoal.tasks.ocr import Reading
from shoal.values import EncodeParams, ExtractParams
from shoal.worker.labels import classifier_of
from shoal.worker.media.decoding import Decoded
from shoal.worker.media.transcripts import Transcripts
from shoal.worker.prepared import Finish, Prepared, several
from shoal.worker.text import TextPreparer

#: A file as it was decoded, and its sequences -> the item that they are.
Made = Callable[[Decoded, list[Prepared]], Prepared]


class Asked(NamedTuple):
    """What becomes of each file of a unit, and what all of them need, as one more item."""

    made: Made
    beside: Prepared | None = None


def alone(decoded: Decoded, sequences: list[Prepared]) -> Prepared:
    """A file that was decoded as one sequence."""
    (one,) = sequences
    return one


def finished_alone(finish: Finish, decoded: Decoded, sequences: list[Prepared]) -> Prepared:
    """The same, whose rows become an answer in this way."""
    return msgspec.structs.replace(alone(decoded, sequences), finish=finish)


def finished_together(finish: Finish, _: Decoded, sequences: list[Prepared]) -> Prepared:
    """All pages of a file as one item."""
    if len(sequences) > 1:
        return several(sequences, finish)
    return msgspec.structs.replace(sequences[0], finish=finish)


class Extracts(Protocol):
    """How the files of one model are prepared for what is read from them.

    Attributes:
        alone: a file must be one sequence.
    """

    alone: bool

    def asked(self, params: ExtractParams) -> Asked:
        """For the items of a unit. Raises `InvalidRequest` where that cannot be asked."""
        ...


class ImageLabels:
    """Labels that the model was trained with."""

    alone = True

    def __init__(self, card: Card, folder: Path) -> None:
        """Raises `ModelLoadFailed` where nobody names the labels."""
        assert card.tasks.extract is not None, "it is what is asked"
        self._classifier = classifier_of(card, card.tasks.extract, folder)

    def asked(self, params: ExtractParams) -> Asked:
        """One sequence an image."""
        return Asked(partial(finished_alone, self._classifier.labels(params)))


class OwnLabels:
    """Labels that the caller chooses, each a text beside the image."""

    alone = True

    def __init__(self, card: Card, texts: TextPreparer | None) -> None:
        """Raises `ModelLoadFailed` for a card whose model takes no texts."""
        task = card.tasks.extract
        assert task is not None, "it is what is asked"
        if texts is None:
            raise ModelLoadFailed(
                f"card '{card.name}': head image-text compares texts with images; "
                "put both under `inputs`"
            )
        self._task, self._texts = task, texts
        self._template = task.template or TEMPLATE

    def asked(self, params: ExtractParams) -> Asked:
        """An image each, and all labels once beside them."""
        labels = tuple(dict.fromkeys(params.labels or self._task.labels))
        if not labels:
            raise InvalidRequest(
                "this model takes any labels, and needs some: give `labels`", param="labels"
            )
        said = [self._template.replace("{label}", label) for label in labels]
        texts: list[Prepared] = []
        for label, text in zip(
            labels, self._texts.prepare([*said], EncodeParams(truncate=False)), strict=True
        ):
            if isinstance(text, ShoalError):
                raise InvalidRequest(f"label '{label[:80]}': {text.message}", param="labels")
            texts.append(text)
        several_fit = params.multi_label
        finish = Matches(
            labels,
            self._task.multi_label if several_fit is None else several_fit,
            self._task.threshold if params.threshold is None else params.threshold,
        )
        return Asked(partial(finished_alone, finish), several(texts, finish))


class SpokenTexts:
    """What is said in a sound, window by window."""

    alone = False

    def __init__(self, card: Card, folder: Path) -> None:
        """Raises `ModelLoadFailed` where the folder's files cannot be used."""
        self._transcripts = Transcripts(card, folder)

    def asked(self, params: ExtractParams) -> Asked:
        """All windows of a sound. Raises `InvalidRequest` for a language that it does not know."""
        speech = params.speech
        begin = None if speech is None else self._transcripts.begin(speech)
        temperature = None if speech is None else speech.temperature

        def made(decoded: Decoded, windows: list[Prepared]) -> Prepared:
            begun = [
                msgspec.structs.replace(window, begin=begin, temperature=temperature)
                for window in windows
            ]
            return several(begun, self._transcripts.finish(decoded))

        return Asked(made)


class PagesRead:
    """What stands in a picture, or on the pages of a file."""

    alone = False

    def __init__(self, card: Card, folder: Path) -> None:
        """Raises `ModelLoadFailed` where the folder does not say which characters there are."""
        assert card.tasks.extract is not None, "it is what is asked"
        self._threshold = card.tasks.extract.threshold or 0.0
        self._characters = read_json(folder / CHARACTERS, tuple[str, ...])

    def asked(self, params: ExtractParams) -> Asked:
        """All pages of a file."""
        threshold = self._threshold if params.threshold is None else params.threshold

        def made(decoded: Decoded, pictures: list[Prepared]) -> Prepared:
            sent = tuple((array.shape[1], array.shape[0]) for array in decoded.arrays)
            reading = Reading(self._characters, threshold, decoded.sizes, sent, decoded.pages)
            return several(pictures, reading)

        return Asked(made)


def extract_media(card: Card, folder: Path, texts: TextPreparer | None) -> Extracts | None:
    """As the card's head needs them; None where nothing is read. Raises `ModelLoadFailed`."""
    task = card.tasks.extract
    match None if task is None else task.head:
        case "image-labels":
            return ImageLabels(card, folder)
        case "image-text":
            return OwnLabels(card, texts)
        case "transcript":
            return SpokenTexts(card, folder)
        case "ocr":
            return PagesRead(card, folder)
    return None
