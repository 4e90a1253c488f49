"""Payloads as files of one folder, which all gateways and workers see."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from threading import Barrier
from typing import Any, BinaryIO, TypeVar

from shoal.cores import usable
from shoal.wire.codec import Buffer

T = TypeVar("T")

#: What is still being written; a crash leaves it behind, and the sweep finds it like the others.
PARTIAL = ".part"
#: As many as a gateway uploads at a time.
MOST_THREADS = 8


def threads() -> int:
    """Calls at a time: half the cores, but no more than a gateway uploads at a time.

    The kernel writes a file on a core, and each thread that has one to write takes its turn before
    the event loop gets that core: eight on two cores doubled what `/healthz` took, and were no faster.
    """
    return min(max(1, usable() // 2), MOST_THREADS)


class FilePayloads:
    """See `payloads.Backend`. Every call runs in a thread."""

    def __init__(self, folder: Path) -> None:
        """Blocking. Raises `OSError` if the folder is not there and cannot be made."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        # Of usual priority: one that holds Python's lock and has no core would keep the event loop.
        count = threads()
        self._threads = ThreadPoolExecutor(count, "payloads")
        # All start here: starting one later would let the event loop wait until it runs.
        all_run = Barrier(count)
        wait([self._threads.submit(all_run.wait) for _ in range(count)])

    async def put(self, key: str, data: Buffer) -> None:
        await self._run(self._write, key, data)

    async def _run(self, call: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call, *arguments)

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
        return await self._run((self._folder / key).read_bytes)

    async def delete(self, key: str) -> None:
        await self._run((self._folder / key).unlink)

    async def written(self) -> dict[str, float]:
        # Not in those threads: what is uploaded meanwhile would wait for a list of thousands.
        return await asyncio.to_thread(self._written)

    def _written(self) -> dict[str, float]:
        found = {}
        with os.scandir(self._folder) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                    if entry.is_file():
                        found[entry.name] = entry.stat().st_mtime
        return found


def _created(path: Path) -> BinaryIO:
    """A new file. What callers send is for nobody else on this machine."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
