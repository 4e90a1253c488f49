"""Other servers, as a file of the user describes them: how to start each and how it is asked.

Decides nothing about them: the file names a command, and this starts it, waits until it answers,
and ends it.
"""

from __future__ import annotations

import os
import shlex
import signal
import tempfile
import tomllib
from pathlib import Path
from typing import Literal

import msgspec

from shoal.bench.child import Child, answers
from shoal.bench.load import Target
from shoal.bench.ports import free_port
from shoal.errors import ConfigError, reason

#: Some load several engines before they answer.
START_S = 300.0


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


class RivalServer(Child):
    """A rival that runs; use it as a context manager."""

    def __init__(self, rival: Rival, threads: int) -> None:
        self._home = tempfile.TemporaryDirectory(prefix="shoal-bench-")
        self.address: Target = ("127.0.0.1", free_port())
        fill = {"port": self.address[1], "threads": threads}
        env = {name: value.format(**fill) for name, value in rival.env.items()}
        super().__init__(
            rival.name,
            shlex.split(rival.command.format(**fill)),
            Path(self._home.name) / "rival.log",
            {**os.environ, **thread_limits(threads), **env},
            rival.directory,
        )
        url = f"http://127.0.0.1:{self.address[1]}{rival.health}"
        try:
            self.wait_until(lambda: answers(url), START_S)
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> RivalServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.end(signal.SIGTERM)
        self._home.cleanup()
