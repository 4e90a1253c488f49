"""The folder of one `nats-server`: its streams, its configuration, its log, which is its lock too.

Decides what a server may keep, and that one at a time does. It must not know how one is run.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import BinaryIO

from shoal.broker.fulldisk import FullDisk
from shoal.errors import BrokerError

HOST = "127.0.0.1"
# The largest that nats-server takes without a warning; larger parts go to the payload store.
MAX_PAYLOAD_BYTES = 8 * 1024 * 1024
# What may wait for one client, before it counts as too slow and is cut off: a gateway that is busy
# for a moment while its workers answer at gigabytes a second.
_MAX_PENDING_BYTES = 256 * 1024 * 1024
# What JetStream may promise to streams. Its default is a share of the free disk, which on a small
# disk is less than the streams' limits add up to, though they are far from ever being reached.
_MAX_STORE_BYTES = 16 * 1024 * 1024 * 1024
_MIN_FREE_BYTES = 256 * 1024 * 1024
_MAX_LOG_BYTES = 4 * 1024 * 1024
# How long a broker whose parent was killed may need to leave the store.
_LOCK_S = 5.0
_POLL_S = 0.005


class Store:
    """The folder. `make` it, then write and read what is in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def log_path(self) -> Path:
        return self.folder / "broker.log"

    def make(self) -> None:
        """Raises `BrokerError` if it cannot be made, or has no room."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            free = shutil.disk_usage(self.folder).free
        except OSError as error:
            raise BrokerError(
                f"store_dir: cannot use {self.folder}: {error.strerror}; choose another folder"
            ) from None
        if free < _MIN_FREE_BYTES:
            raise BrokerError(
                f"store_dir: {self.folder} has only {free >> 20} MB free; the broker needs "
                f"{_MIN_FREE_BYTES >> 20} MB: free some, or choose another folder"
            )

    def write_config(self, name: str, port: int, token: str | None) -> Path:
        """What nats-server reads; with port 0 it picks one and tells it: `port_of`."""
        folder = self.folder / "run"
        folder.mkdir(exist_ok=True, mode=0o700)
        # Quoted as JSON, which nats-server's configuration takes for strings.
        lines = [
            f"server_name: {json.dumps(name)}",
            f"host: {json.dumps(HOST)}",
            f"port: {port or -1}",
            f"ports_file_dir: {json.dumps(str(folder))}",
            f"max_payload: {MAX_PAYLOAD_BYTES}",
            f"max_pending: {_MAX_PENDING_BYTES}",
            f"jetstream {{ store_dir: {json.dumps(str(self.folder))}, "
            f"max_file_store: {_MAX_STORE_BYTES} }}",
        ]
        if token:
            lines.append(f"authorization {{ token: {json.dumps(token)} }}")
        config = folder / "nats.conf"
        config.touch(mode=0o600)  # it may hold the token
        config.write_text("\n".join(lines) + "\n")
        return config

    def port_of(self, pid: int | None) -> int | None:
        """The port in the file that nats-server writes once it listens; None until then."""
        for ports_file in (self.folder / "run").glob(f"*_{pid}.ports"):
            with contextlib.suppress(ValueError, KeyError, IndexError):  # not whole yet
                ports = json.loads(ports_file.read_text())
                return int(ports["nats"][0].rpartition(":")[2])
        return None

    @contextlib.asynccontextmanager
    async def locked_log(self) -> AsyncIterator[BinaryIO]:
        """The log, to be handed to a server.

        It is the lock of the store too: the child inherits it, so that it is held exactly as long
        as a broker lives, even one whose parent was killed. Two on one store would ruin it.

        Raises:
            BrokerError: another broker holds it.
        """
        with self.log_path.open("ab") as log:
            await self._lock(log.fileno())
            if log.tell() > _MAX_LOG_BYTES:
                log.truncate(0)
            yield log

    async def _lock(self, fd: int) -> None:
        deadline = asyncio.get_running_loop().time() + _LOCK_S
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if asyncio.get_running_loop().time() > deadline:
                    raise BrokerError(
                        f"store_dir: {self.folder} is in use by another broker (another "
                        "`shoal serve`?); stop it, or choose another store_dir"
                    ) from None
            await asyncio.sleep(_POLL_S)

    def disk(self, offset: int) -> FullDisk:
        """Whether there is room, as a server sees it whose lines in the log begin at `offset`."""
        return FullDisk(self.log_path, offset, _MIN_FREE_BYTES)

    def said_since(self, offset: int) -> str:
        """The log from `offset` on."""
        with self.log_path.open("rb") as log:
            log.seek(offset)
            return log.read(_MAX_LOG_BYTES).decode(errors="replace")
