"""Items of models whose runtime takes decoded media, and texts beside them.

Runs in the preparing threads. An image or sound becomes arrays here; texts go the way of all texts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from shoal.catalog.card import Card
from shoal.catalog.families import FAMILIES
from shoal.catalog.pages import PageForm, page_form
from shoal.errors import (
    ComputeFailed,
    InvalidItem,
    InvalidRequest,
    ModelLoadFailed,
    ShoalError,
    reason,
)
from shoal.settings import WorkerSettings
from shoal.tasks.encode import Item, Media
from shoal.values import (
    EncodeParams,
    ExtractParams,
    GenerateParams,
    Params,
    ScoreParams,
    TokenizeParams,
)
from shoal.worker.media.decoding import Decoded, Decoder, ImageDecoder, PageDecoder, SoundDecoder
from shoal.worker.media.extracting import (
    Asked,
    Made,
    alone,
    extract_media,
    finished_alone,
    finished_together,
)
from shoal.worker.media.files import PIXEL, SILENCE
from shoal.worker.media.placing import Pages
from shoal.worker.media.showing import Showing
from shoal.worker.prepared import Prepared
from shoal.worker.text import QUERY, TextPreparer
from shoal.worker.vectors import compared, encoded


class DecodingPreparer:
    """What one model takes, its files decoded."""

    slow = True

    def __init__(self, card: Card, folder: Path, settings: WorkerSettings) -> None:
        """Raises `ModelLoadFailed` where a library or a file of the model's folder is missing."""
        self._card = card
        self._inputs = " or ".join(card.inputs)
        self._decoder: Decoder = _decoder(card, folder, settings)
        form = page_form(folder, card.family)
        shows = self._shows(card, form, settings)
        self._texts = TextPreparer(card, folder, shows) if "text" in card.inputs else None
        self._pages = self._pages_of(card, form)
        self._extract = extract_media(card, folder, self._texts)

    def _shows(self, card: Card, form: PageForm | None, settings: WorkerSettings) -> Showing | None:
        if form is None or card.tasks.generate is None:
            return None
        decode = partial(self._decoder.decode, alone=True)
        return Showing(decode, form, settings.media_images, card.max_tokens)

    def _pages_of(self, card: Card, form: PageForm | None) -> Pages | None:
        if form is None:
            return None
        if self._texts is None:
            raise ModelLoadFailed(f"card '{card.name}': its pages need text too, under `inputs`")
        return Pages(card, form, self._texts.tokens)

    @property
    def probe(self) -> Item:
        if self._texts is not None and self._card.tasks.generate is not None:
            return self._texts.probe
        return Media(PIXEL if "image" in self._card.inputs else SILENCE)

    def prepare(
        self, items: list[Item], params: Params, query: Item | None = None
    ) -> list[Prepared | ShoalError]:
        """Each item, or its error; after them the query of a score unit, or labels."""
        if isinstance(params, TokenizeParams | GenerateParams) and self._texts is not None:
            return self._texts.prepare(items, params)
        made, beside = self._asked(params)
        decode = partial(self._decoder.decode, alone=self._alone(params))
        others: list[Item] = [item for item in items if not isinstance(item, Media)]
        texts = iter(self._others(others, params, query))
        own = [
            self._media(item, decode, made) if isinstance(item, Media) else next(texts)
            for item in items
        ]
        return [*own, *texts, *(() if beside is None else (beside,))]

    def _asked(self, params: Params) -> Asked:
        """Raises `InvalidRequest` where nothing can be made of a file."""
        if isinstance(params, EncodeParams):
            finish = encoded(self._card, params, query=params.prompt == QUERY)
            return Asked(alone if finish is None else partial(finished_alone, finish))
        if isinstance(params, ScoreParams) and self._texts is not None:
            finish = compared(self._card)
            if finish is not None:
                return Asked(partial(finished_together, finish))
        if isinstance(params, ExtractParams) and self._extract is not None:
            return self._extract.asked(params)
        raise InvalidRequest(f"'{self._card.name}' does not do this task")

    def _alone(self, params: Params) -> bool:
        """Whether a file must be one sequence."""
        if isinstance(params, ExtractParams) and self._extract is not None:
            return self._extract.alone
        return isinstance(params, EncodeParams)

    def _others(
        self, items: list[Item], params: Params, query: Item | None
    ) -> list[Prepared | ShoalError]:
        if self._texts is not None and not isinstance(params, ExtractParams):
            return self._texts.prepare(items, params, query)
        # Of a model of texts too, this is a task that reads files alone.
        files = " or ".join(kind for kind in self._card.inputs if kind != "text")
        taken = files if files == self._inputs else f"{files} for this task"
        return [
            InvalidItem(
                f"this model takes {taken}, no "
                + ("text" if isinstance(item, str) else "token ids")
            )
            for item in items
        ]

    def _media(
        self, item: Media, decode: Callable[[bytes], Decoded], made: Made
    ) -> Prepared | ShoalError:
        if item.kind is not None and item.kind not in self._card.inputs:
            return InvalidItem(f"this model takes {self._inputs}, no {item.kind}")
        if not item.data:
            return InvalidItem("this item is empty")
        try:
            decoded = decode(item.data)
            return made(decoded, self._sequences(decoded))
        except ShoalError as error:
            return error
        except Exception as error:  # each library has its own; the other files are not at fault
            return ComputeFailed(f"this file could not be decoded: {reason(error)}")

    def _sequences(self, decoded: Decoded) -> list[Prepared]:
        if self._pages is None:
            # Without a length they count as the longest text does: all of them have one size.
            lengths = decoded.lengths or [self._card.max_tokens] * len(decoded.arrays)
            sequences = zip(decoded.arrays, lengths, strict=True)
            return [Prepared(input=array, length=length) for array, length in sequences]
        grids = decoded.grids or [(0, 0)] * len(decoded.arrays)
        return [
            self._pages.placed(array, *grid)
            for array, grid in zip(decoded.arrays, grids, strict=True)
        ]


def _decoder(card: Card, folder: Path, settings: WorkerSettings) -> Decoder:
    if "audio" in card.inputs:
        return SoundDecoder(card.family, folder, settings)
    if card.tasks.extract is not None and card.tasks.extract.head == "ocr":
        return PageDecoder(card.max_tokens, settings)
    return ImageDecoder(card.family, folder, settings)


def decodes(card: Card) -> bool:
    """Whether the runtime's code for this card's family takes its media decoded."""
    return set(card.inputs) <= {"text", *FAMILIES[card.family].media}
