"""A server that is started here, for one model: its command line, its lines and its end."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable

from shoal.wire.socket import Load

_TAIL_LINES = 20
#: It ends what runs and gives its device back.
_STOP_S = 15.0
_LEASH = (sys.executable, "-P", "-m", "shoal.runtimes.sglang.leash")
#: So that likelihoods are told as they are before a temperature divides.
_ENVIRONMENT = {"SGLANG_RETURN_ORIGINAL_LOGPROB": "1", "PYTHONUNBUFFERED": "1"}


class Launched:
    """A process of this one's group, which ends with this one.

    Args:
        died: called with the reason, from a thread of its own, where it ends before `stop`.
    """

    def __init__(self, command: list[str], died: Callable[[str], None]) -> None:
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._died, self._stopping = died, False
        self._popen = subprocess.Popen(
            [*_LEASH, str(os.getpid()), *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=os.environ | _ENVIRONMENT,
        )
        self._reader = threading.Thread(target=self._read, name="server", daemon=True)
        self._reader.start()

    @property
    def ended(self) -> bool:
        """Whether it does not run any more."""
        return self._popen.poll() is not None

    def last_lines(self) -> str:
        """What it printed last, each in a line of its own."""
        return "".join(f"\n{line}" for line in list(self._tail))

    def stop(self) -> None:
        """End it, and wait until it has given its memory back."""
        self._stopping = True
        self._popen.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(_STOP_S)
        self._popen.kill()
        self._popen.wait()
        self._reader.join(1.0)

    def _read(self) -> None:
        """Pass on what it prints until it has ended."""
        assert self._popen.stdout is not None
        with self._popen.stdout as lines:
            for raw in lines:
                line = raw.decode(errors="replace").rstrip()
                self._tail.append(line)
                print(line, flush=True)
        status = self._popen.wait()
        if not self._stopping:
            self._died(f"the SGLang server ended with status {status}:{self.last_lines()}")


def free_port() -> int:
    """One that nobody listens on now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port


def command_of(command: list[str], load: Load, device: str, port: int) -> list[str]:
    """A whole command line, with the flags of ``sglang.launch_server``."""
    kind, _, number = device.partition(":")
    place = ["--base-gpu-id", number] if kind == "cuda" and number else []
    dtype = [] if load.dtype == "auto" else ["--dtype", load.dtype]
    return [
        *command,
        *("--model-path", load.path, "--host", "127.0.0.1", "--port", str(port)),
        *("--device", kind),
        *place,
        *dtype,
    ]
