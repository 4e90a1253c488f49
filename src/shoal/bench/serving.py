"""A real `shoal serve` for benchmarks: started on free ports, in a folder of its own, and ended.

It is driven and watched from outside, as an operator would: HTTP, `/metrics`, `/proc`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import msgspec
from prometheus_client.parser import text_string_to_metric_families

from shoal.bench.processes import by_role
from shoal.bench.rivals import free_ports
from shoal.errors import Unavailable

#: Reading a model of 100 MB and compiling nothing takes seconds; a cold disk some more.
START_S = 180.0
STOP_S = 60.0
_POLL_S = 0.05
_MOST_WORKERS = 8


class _State(msgspec.Struct):
    """The part of `shoal serve`'s state file that is of use here."""

    url: str


class Serving:
    """A running `shoal serve`; use it as a context manager.

    `environment`: variables that its processes have beside ours.
    """

    def __init__(self, arguments: list[str], environment: Mapping[str, str] | None = None) -> None:
        self._home = tempfile.TemporaryDirectory(prefix="shoal-bench-")
        self._log = Path(self._home.name) / "serve.log"
        self._health_port = free_ports(_MOST_WORKERS)  # one each
        ports = ["--port", "0", "--health-port", str(self._health_port)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "shoal.cli", "serve", *arguments, *ports],
                stdout=log,
                stderr=log,
                env={**_environment(self._home.name), **(environment or {})},
            )
        try:
            self.url = self._wait_until_ready()
        except BaseException:
            self.__exit__()
            raise

    def _wait_until_ready(self) -> str:
        state = Path(self._home.name) / "shoal" / "running" / f"{self.pid}.json"
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline and self._process.poll() is None:
            if state.exists() and (data := state.read_bytes()):
                return msgspec.json.decode(data, type=_State).url
            time.sleep(_POLL_S)
        raise Unavailable(f"shoal serve did not get ready; its log ends:\n{self.log_end()}")

    def log_end(self) -> str:
        """The last lines of its log."""
        return "\n".join(self.log().splitlines()[-20:])

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def host(self) -> str:
        return str(urlsplit(self.url).hostname)

    @property
    def port(self) -> int:
        return int(urlsplit(self.url).port or 80)

    def roles(self) -> dict[str, list[int]]:
        """Its processes by role."""
        return by_role(self.pid)

    def log(self) -> str:
        """What its processes have logged so far."""
        return self._log.read_text(errors="replace")

    def ready(self) -> bool:
        """Whether a gateway says that requests would be answered."""
        try:
            return httpx.get(f"{self.url}/readyz", timeout=5).status_code == 200
        except httpx.HTTPError:
            return False

    def worker_ready(self) -> bool:
        """Whether its (first) worker says that it would answer."""
        try:
            url = f"http://127.0.0.1:{self._health_port}/readyz"
            return httpx.get(url, timeout=5).status_code == 200
        except httpx.HTTPError:
            return False

    def recovered(self, role: str, processes: int, timeout_s: float) -> None:
        """Wait until so many processes of this role run and all is ready.

        Raises:
            Unavailable: that did not happen in time, with the end of the log.
        """
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if len(self.roles()[role]) >= processes and self.ready():
                return
            time.sleep(_POLL_S)
        raise Unavailable(f"the {role} did not come back; the log ends:\n{self.log_end()}")

    def worker_metrics(self) -> dict[str, float]:
        """Sums over all labels of every sample of the worker's `/metrics`."""
        url = f"http://127.0.0.1:{self._health_port}/metrics"
        text = httpx.get(url, timeout=10).text
        sums: dict[str, float] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                sums[sample.name] = sums.get(sample.name, 0.0) + sample.value
        return sums

    def __enter__(self) -> Serving:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._home.cleanup()


def _environment(home: str) -> dict[str, str]:
    """Ours without settings that belong to another deployment."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SHOAL_")}
    return {**kept, "XDG_STATE_HOME": home}
