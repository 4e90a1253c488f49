"""How a runtime's process is started: its command line, its environment, the folder of its socket."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import msgspec

#: ``-P`` keeps modules of the working directory from standing in for real ones.
COMMAND = (sys.executable, "-P", "-m", "shoal.runtimes.serve")
#: `sockaddr_un.sun_path` has 108 bytes on Linux and 104 on macOS, the final zero included.
_MAX_SOCKET_PATH = 103


class RuntimeSpec(msgspec.Struct, frozen=True):
    """Which runtime to start."""

    kind: str
    device: str = "cpu"
    threads: int = 1
    command: tuple[str, ...] = COMMAND

    def line(self, socket: Path) -> list[str]:
        """Its command, which ends with what every runtime is told."""
        told = {
            "kind": self.kind,
            "socket": str(socket),
            "device": self.device,
            "threads": str(self.threads),
        }
        return [*self.command, *(f"{key}={value}" for key, value in told.items())]

    def environment(self) -> dict[str, str]:
        """This process's, with the thread pools of numeric libraries held to `threads`."""
        pools = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
        return {**os.environ, **dict.fromkeys(pools, str(self.threads))}


def private_folder() -> Path:
    """A folder only this user can enter, with a path short enough for a socket ``s`` in it."""
    folder = Path(tempfile.mkdtemp(prefix="shoal-"))
    if len(os.fsencode(folder / "s")) <= _MAX_SOCKET_PATH:
        return folder
    folder.rmdir()
    return Path(tempfile.mkdtemp(prefix="shoal-", dir="/tmp"))
