"""Payloads as files of one folder, which all gateways and workers see."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from pathlib import Path
from typing import BinaryIO

from shoal.wire.codec import Buffer

#: What is still being written; a crash leaves it behind, and the sweep finds it like the others.
PARTIAL = ".part"


class FilePayloads:
    """See `payloads.Backend`. Every call runs in a thread."""

    def __init__(self, folder: Path) -> None:
        """Blocking. Raises `OSError` if the folder is not there and cannot be made."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder

    async def put(self, key: str, data: Buffer) -> None:
        await asyncio.to_thread(self._write, key, data)

    def _write(self, key: str, data: Buffer) -> None:
        partial = self._folder / f"{key}.{secrets.token_hex(4)}{PARTIAL}"
        try:
            with _created(partial) as file:
                file.write(data)
            partial.replace(self._folder / key)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise

    async def get(self, key: str) -> Buffer:
        return await asyncio.to_thread((self._folder / key).read_bytes)

    async def delete(self, key: str) -> None:
        await asyncio.to_thread((self._folder / key).unlink)

    async def older_than(self, moment_s: float) -> list[str]:
        return await asyncio.to_thread(self._older_than, moment_s)

    def _older_than(self, moment_s: float) -> list[str]:
        keys = []
        with os.scandir(self._folder) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                    if entry.is_file() and entry.stat().st_mtime < moment_s:
                        keys.append(entry.name)
        return keys


def _created(path: Path) -> BinaryIO:
    """A new file. What callers send is for nobody else on this machine."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
