"""The items of a batch as the fake runtime reads them, whatever its inputs are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.errors import InvalidRequest
from shoal.runtimes.batch import read
from shoal.runtimes.fake.hashing import pack_media, pack_texts
from shoal.runtimes.fake.options import FakeOptions, Marker
from shoal.wire.socket import Run


@dataclass(frozen=True, slots=True)
class Items:
    """The items of a batch, packed; a text is the bytes of its UTF-8, a file those of its digest."""

    tokens: NDArray[np.integer[Any]]  # [total_tokens]
    lengths: NDArray[np.int64]  # [n_items]
    texts: list[str] | None
    file_bytes: int = 0

    def with_marker(self, marker: Marker) -> list[int]:
        """Positions of the items that hold `marker`."""
        if marker is None:
            return []
        if isinstance(marker, str):
            return [i for i, text in enumerate(self.texts or []) if marker in text]
        found = np.flatnonzero(self.tokens == marker)
        return sorted({int(i) for i in np.searchsorted(self.lengths.cumsum(), found, "right")})


def items_of(batch: Run, options: FakeOptions) -> Items:
    """Raises `InvalidRequest` if the batch lacks the inputs that the model was loaded for."""
    if options.inputs == "text":
        return _texts(batch)
    if options.inputs == "media":
        return _media(batch)
    return _tokens(batch)


def _texts(batch: Run) -> Items:
    if batch.texts is None:
        raise InvalidRequest(f"'{batch.model}' was loaded for texts and none came")
    return Items(*pack_texts(batch.texts), batch.texts)


def _media(batch: Run) -> Items:
    if batch.media is None and batch.texts is None:
        raise InvalidRequest(f"'{batch.model}' was loaded for media and none came")
    media = batch.media or [b""] * len(batch.texts or [])
    texts = batch.texts or [""] * len(media)
    files = [file or text.encode() for file, text in zip(media, texts, strict=True)]
    return Items(*pack_media(files), batch.texts, sum(map(len, files)))


def _tokens(batch: Run) -> Items:
    items = read(batch)
    return Items(items.tokens, items.lengths, None)
