"""Other servers, as a file of the user describes them: how to start each and how it is asked.

Decides nothing about them: the file names a command, and this starts it, waits until it answers,
and ends it.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import socket
import subprocess
import tempfile
import time
import tomllib
import urllib.error
import urllib.request
from pathlib import Path
from typing import Literal

import msgspec

from shoal.errors import ConfigError, Unavailable, reason

START_S = 300.0
STOP_S = 60.0
_POLL_S = 0.5


class Rival(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One server.

    Attributes:
        command: how to start it; ``{port}`` and ``{threads}`` are filled in, in `env` too.
        model: what it calls the model.
        path: of the embeddings route, where the API is ``openai``.
        health: path that answers 200 once it is up.
        directory: where it is started; ours if unset.
    """

    name: str
    api: Literal["openai", "sie"]
    command: str
    model: str
    path: str = "/v1/embeddings"
    health: str = "/health"
    env: dict[str, str] = {}
    directory: str | None = None


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    rival: list[Rival]


def read_rivals(path: Path) -> list[Rival]:
    """The rivals of a TOML file. Raises `ConfigError`."""
    try:
        return msgspec.convert(tomllib.loads(path.read_text()), _File).rival
    except (OSError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise ConfigError(f"{path}: {reason(error)}") from None


def thread_limits(threads: int) -> dict[str, str]:
    """What keeps the usual numeric libraries to `threads`."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS")
    return dict.fromkeys(names, str(threads))


def free_port() -> int:
    """A port that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def free_ports(count: int) -> int:
    """The first of so many ports in a row that nobody listened on a moment ago."""
    while True:
        first = free_port()
        with contextlib.ExitStack() as held, contextlib.suppress(OSError, OverflowError):
            for port in range(first, first + count):
                held.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return first


class RivalServer:
    """A rival that runs; use it as a context manager."""

    def __init__(self, rival: Rival, threads: int) -> None:
        self.rival = rival
        self.host, self.port = "127.0.0.1", free_port()
        self._log = tempfile.NamedTemporaryFile(prefix="shoal-bench-rival-")  # noqa: SIM115
        fill = {"port": self.port, "threads": threads}
        env = {name: value.format(**fill) for name, value in rival.env.items()}
        self._process = subprocess.Popen(
            shlex.split(rival.command.format(**fill)),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            cwd=rival.directory,
            env={**os.environ, **thread_limits(threads), **env},
        )
        try:
            self._wait_until_healthy()
        except BaseException:
            self.__exit__()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def _wait_until_healthy(self) -> None:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline and self._process.poll() is None:
            if self._healthy():
                return
            time.sleep(_POLL_S)
        lines = Path(self._log.name).read_text(errors="replace").splitlines()[-20:]
        raise Unavailable("\n".join([f"{self.rival.name} did not start; its log ends:", *lines]))

    def _healthy(self) -> bool:
        url = f"http://{self.host}:{self.port}{self.rival.health}"
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def __enter__(self) -> RivalServer:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()
