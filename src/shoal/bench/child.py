"""A server that a benchmark starts: a command with a log, waited for until it answers, and ended.

It dies with the benchmark, whatever happens to that.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import httpx

from shoal.broker.orphans import dying_with_us
from shoal.errors import Unavailable

#: Reading a model of 100 MB takes seconds, a cold disk some more, twenty processes at once too.
START_S = 180.0
STOP_S = 60.0
_POLL_S = 0.05
_SHOWN_LINES = 20


class Child:
    """A running process. `what`: its name in errors."""

    def __init__(
        self,
        what: str,
        command: Sequence[str],
        log: Path,
        env: Mapping[str, str],
        directory: str | None = None,
    ) -> None:
        self._what = what
        self._log = log
        with log.open("wb") as file:
            self._popen = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                cwd=directory,
                env=dict(env),
                preexec_fn=dying_with_us(signal.SIGTERM),
            )

    @property
    def pid(self) -> int:
        return self._popen.pid

    def log(self) -> str:
        """What it has said so far."""
        return self._log.read_text(errors="replace")

    def log_end(self) -> str:
        """The last lines of that."""
        return "\n".join(self.log().splitlines()[-_SHOWN_LINES:])

    def wait_until(self, ready: Callable[[], bool], within_s: float = START_S) -> None:
        """Raises `Unavailable` with the end of its log if it ends or takes longer."""
        deadline = time.monotonic() + within_s
        while self._popen.poll() is None and time.monotonic() < deadline:
            if ready():
                return
            time.sleep(_POLL_S)
        raise Unavailable(f"{self._what} did not get ready; its log ends:\n{self.log_end()}")

    def tell(self, signal_: signal.Signals) -> None:
        """Send it a signal."""
        self._popen.send_signal(signal_)

    def end(self, signal_: signal.Signals) -> None:
        """Have it end; kill it if it does not."""
        self.tell(signal_)
        self.wait_for_end(STOP_S)

    def wait_for_end(self, within_s: float) -> None:
        """Kill it if that takes longer."""
        try:
            self._popen.wait(within_s)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()


def without_settings() -> dict[str, str]:
    """Our environment without settings that belong to another deployment."""
    return {name: value for name, value in os.environ.items() if not name.startswith("SHOAL_")}


def answers(url: str) -> bool:
    """Whether a GET is answered with status 200."""
    try:
        return httpx.get(url, timeout=5).status_code == 200
    except httpx.HTTPError:
        return False
