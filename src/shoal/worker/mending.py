"""Notices that somebody mends a model: the files of a folder that could not be loaded change.

Looks at the folders of cards whose `source` is `dir`, and at those that failed alone. Files are
looked at once they rest: half a copy would fail again. What follows is the core's to decide.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path

from shoal.catalog.resolve import Catalog
from shoal.core.events import FilesChanged
from shoal.core.models import ModelState

#: Between two looks; files that are the same at both are whole.
LOOK_S = 1.0
#: A model has a dozen files; a folder with more of them than this is looked at in part.
_MOST_FILES = 1000

#: Of each file below a folder: its path, size and time of change.
Stamp = frozenset[tuple[str, int, int]]


class Mending:
    """The folders of a worker's models that could not be loaded."""

    def __init__(
        self,
        models: Mapping[str, ModelState],
        catalog: Catalog,
        emit: Callable[[FilesChanged], None],
    ) -> None:
        self._models = models
        self._emit = emit
        self._folders = {
            card.name: Path(card.source.dir).expanduser()
            for card in catalog.cards()
            if card.source.dir is not None
        }
        self._failed: dict[str, Stamp] = {}  # as they were when they could not be loaded
        self._latest: dict[str, Stamp] = {}

    async def look_forever(self) -> None:
        """Look every period, for as long as this is not cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            await self.look()

    async def look(self) -> None:
        """Look at all that failed; tells of those that changed since, and not since the last look."""
        folders = {
            name: folder
            for name, folder in self._folders.items()
            if self._models[name].state == "failed"
        }
        stamps = await asyncio.to_thread(_stamps, folders) if folders else {}
        before, self._latest = self._latest, stamps
        self._failed = {name: self._failed.get(name, stamp) for name, stamp in stamps.items()}
        for name, stamp in stamps.items():
            if stamp == before.get(name) and stamp != self._failed[name]:
                self._failed[name] = stamp
                self._emit(FilesChanged(name))


def _stamps(folders: Mapping[str, Path]) -> dict[str, Stamp]:
    return {name: _stamp(folder) for name, folder in folders.items()}


def _stamp(folder: Path) -> Stamp:
    """Empty where there is no such folder; without what cannot be looked at."""
    found: list[tuple[str, int, int]] = []
    with contextlib.suppress(OSError):  # folders come and go while they are looked at
        for path in islice(folder.rglob("*"), _MOST_FILES):
            with contextlib.suppress(OSError):
                said = path.stat()
                found.append((str(path), said.st_size, said.st_mtime_ns))
    return frozenset(found)
