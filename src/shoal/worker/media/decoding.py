"""Files to what one model takes: an image as pixels, sound as spectrograms.

Reads the folder's own word on sizes once. The libraries are loaded here and nowhere else: a worker
that serves texts needs none of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from shoal.catalog.preprocessing import image_processing, sound_processing
from shoal.errors import InvalidItem, ModelLoadFailed
from shoal.settings import WorkerSettings
from shoal.tasks.ocr import sent_size, tokens_of
from shoal.tasks.sound import Samples, windows

if TYPE_CHECKING:
    from PIL.Image import Image

T = TypeVar("T")

#: What each kind of media needs besides numpy: modules -> their packages.
NEEDED = {
    "image": {"PIL": "pillow", "pypdfium2": "pypdfium2"},
    "audio": {"soundfile": "soundfile"},
}


class Decoded(msgspec.Struct, frozen=True):
    """What a file becomes: an array a sequence.

    Attributes:
        grids: rows and columns of the squares that each image was cut into, where it was.
        starts_s: when each begins, of sound. `seconds`: of all of it.
        lengths: tokens that each counts; none: all of them as many as the model takes.
        sizes: width and height of each picture or page, before it was resized. `pages`: whether the
            file has pages.
    """

    arrays: list[NDArray[Any]]
    starts_s: tuple[float, ...] = (0.0,)
    seconds: float = 0.0
    grids: tuple[tuple[int, int], ...] = ()
    lengths: tuple[int, ...] = ()
    sizes: tuple[tuple[int, int], ...] = ()
    pages: bool = False


class Decoder(Protocol):
    """For one kind of media of one model."""

    def decode(self, data: bytes, *, alone: bool) -> Decoded:
        """`alone`: it must be one sequence. Raises `InvalidItem` for a file that cannot be read, or
        is too large: before it is decoded where its header says so."""
        ...


def only_one(shape: str) -> InvalidItem:
    """The error of a file of more than one sequence, where the answer is of one."""
    return InvalidItem(
        f"this file {shape}, which is more than one sequence of the model, and it answers for one; "
        "send it in parts"
    )


class ImageDecoder:
    """One array of pixels an image, or a page of a PDF; or of its squares, where the model sees those."""

    def __init__(self, family: str, folder: Path, settings: WorkerSettings) -> None:
        """Raises `ModelLoadFailed` where a library is missing, or the folder's word is."""
        _need("image")
        self._processing = image_processing(folder, family)
        self._most = settings.media_pixels
        self._most_pages = settings.media_pages

    def decode(self, data: bytes, *, alone: bool) -> Decoded:
        """The image or pages, resized, and cropped or cut."""
        from shoal.worker.media.images import fitted
        from shoal.worker.media.tiles import tiled

        if self._processing.tile is None:
            fit = partial(fitted, processing=self._processing, max_pixels=self._most)
            return Decoded(self._each(data, fit, alone))
        cut = partial(tiled, processing=self._processing, max_pixels=self._most)
        pages = self._each(data, cut, alone)
        grids = tuple((page.rows, page.columns) for page in pages)
        return Decoded([page.pixels for page in pages], grids=grids)

    def _each(self, data: bytes, made: Callable[[Image], T], alone: bool) -> list[T]:
        from shoal.worker.media.images import read_image
        from shoal.worker.media.pages import is_pdf, read_pages

        def counted(pages: int) -> None:
            if alone and pages > 1:
                raise only_one(f"has {pages} pages")

        if is_pdf(data):
            return read_pages(data, self._most_pages, self._most, made, counted)
        return [made(read_image(data, self._most))]


class PageDecoder:
    """One array of pixels an image or a page of a PDF, in its own shape: what is read stays sharp."""

    def __init__(self, max_tokens: int, settings: WorkerSettings) -> None:
        """Raises `ModelLoadFailed` where a library is missing."""
        _need("image")
        self._max_tokens = max_tokens
        self._most = settings.media_pixels
        self._most_pages = settings.media_pages

    def decode(self, data: bytes, *, alone: bool) -> Decoded:
        """The image or pages, made smaller where they are larger than a reader takes them."""
        from shoal.worker.media.images import read_image, scaled
        from shoal.worker.media.pages import is_pdf, read_pages

        sizes: list[tuple[int, int]] = []

        def made(image: Image) -> NDArray[np.uint8]:
            sizes.append(image.size)
            return scaled(image, *sent_size(*image.size, self._max_tokens))

        pages = is_pdf(data)
        if pages:
            arrays = read_pages(data, self._most_pages, self._most, made)
        else:
            arrays = [made(read_image(data, self._most))]
        lengths = [tokens_of(a.shape[1], a.shape[0], self._max_tokens) for a in arrays]
        return Decoded(arrays, lengths=tuple(lengths), sizes=tuple(sizes), pages=pages)


class SoundDecoder:
    """A spectrogram for every window of a sound."""

    def __init__(self, family: str, folder: Path, settings: WorkerSettings) -> None:
        """As `ImageDecoder`."""
        _need("audio")
        self._processing = sound_processing(folder)
        self._most_s = settings.media_seconds

    def decode(self, data: bytes, *, alone: bool) -> Decoded:
        """The sound in windows, cut where it is quiet."""
        from shoal.worker.media.sound import read_sound, spectrogram

        rate, most = self._processing.sampling_rate, self._processing.chunk_samples

        def told(seconds: float) -> None:
            if alone and seconds * rate > most + 1:  # it is rounded when it is resampled
                raise only_one(f"lasts {seconds:.1f} s")

        samples = read_sound(data, rate, self._most_s, told)
        parts: list[tuple[int, Samples]] = windows(samples, most, rate)
        if alone and len(parts) > 1:  # its header said less
            raise only_one(f"lasts {len(samples) / rate:.1f} s")
        return Decoded(
            [spectrogram(part, self._processing) for _, part in parts],
            tuple(round(start / rate, 3) for start, _ in parts),
            round(len(samples) / rate, 3),
        )


def _need(kind: str) -> None:
    for module, package in NEEDED[kind].items():
        if find_spec(module) is None:
            raise ModelLoadFailed(
                f"models that take {kind} need the package {package}, which is not installed: "
                "pip install 'shoal[media]'"
            )
