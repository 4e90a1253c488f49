"""The folder for fetched files: where a thing lies, and that it appears there whole or not at all.

Several processes may share it. Nothing here knows what the files are.
"""

from __future__ import annotations

import fcntl
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from shoal.errors import SourceError


class Progress(Protocol):
    """Told how far a fetch has come; `total` is None while it is unknown."""

    def __call__(self, what: str, done: int, total: int | None) -> None: ...


def silent(what: str, done: int, total: int | None) -> None:
    """A `Progress` that nobody watches."""


def root(cache_dir: str | None) -> Path:
    """The cache folder: the given one, else the platform's usual place in the home folder."""
    if cache_dir is not None:
        return Path(cache_dir).expanduser().resolve()
    usual = "~/Library/Caches/shoal" if sys.platform == "darwin" else "~/.cache/shoal"
    return Path(usual).expanduser()


@contextmanager
def locked(target: Path) -> Iterator[None]:
    """Hold `target`'s lock, against threads and processes alike; waits for whoever has it.

    The kernel lets go of it when its holder dies.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.with_name(f".{target.name}.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def build(target: Path, make: Callable[[Path], None]) -> Path:
    """Return `target`; if it is missing, `make` writes a scratch path that is renamed to it.

    Raises:
        SourceError: the disk refuses; whatever `make` raises.
    """
    if target.exists():
        return target
    try:
        with locked(target):
            if not target.exists():
                _build(target, make)
    except OSError as error:
        raise SourceError(
            f"cannot write {target}: {error.strerror or error}; "
            "free some space, or set cache_dir to a folder that can be written"
        ) from error
    return target


def _build(target: Path, make: Callable[[Path], None]) -> None:
    scratch = target.with_name(f".{target.name}.partial")
    _remove(scratch)  # left by a process that was killed
    try:
        make(scratch)
        scratch.rename(target)
    finally:
        _remove(scratch)


def drop(target: Path) -> None:
    """Remove a thing, whole or not at all, once nobody makes it. Raises `OSError`."""
    with locked(target):
        gone = target.with_name(f".{target.name}.partial")
        _remove(gone)
        target.rename(gone)
        _remove(gone)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
