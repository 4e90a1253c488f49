"""A real `shoal serve` for benchmarks: started, watched, found by its parts' process ids, ended."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from types import TracebackType

import httpx
import msgspec

START_S = 120.0
#: How a part's command line is recognised.
PARTS = {
    "gateway": "shoal.cli gateway",
    "worker": "shoal.cli worker",
    "runtime": "shoal.runtimes.serve",
    "broker": "nats-server",
}


class Process(msgspec.Struct, frozen=True):
    """A process of the stack."""

    pid: int
    parent: int
    command: str


class ServedStack:
    """`shoal serve MODEL…` on a free port, with state of its own under `folder`."""

    def __init__(self, models: str, folder: Path, flags: list[str]) -> None:
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._log_path = folder / "serve.log"
        self._health_port = _free_port()
        self._command = [
            *(sys.executable, "-m", "shoal.cli", "serve", *models.split()),
            *("--port", str(self.port), "--health-port", str(self._health_port)),
            *("--log-format", "json", *flags),
        ]
        self._environ = os.environ | {"XDG_STATE_HOME": str(folder / "state")}
        self._process: subprocess.Popen[bytes] | None = None
        self._read = 0
        self._events: Counter[str] = Counter()

    async def __aenter__(self) -> ServedStack:
        self._start()
        await self.ready(START_S)
        return self

    def _start(self) -> None:
        with self._log_path.open("wb") as log:
            self._process = subprocess.Popen(
                self._command, env=self._environ, stdout=log, stderr=log, start_new_session=True
            )

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            await asyncio.to_thread(self._process.wait, 30)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)

    def log(self) -> str:
        return self._log_path.read_text(errors="replace")

    def events(self, name: str) -> int:
        """How often this event was logged so far, by any process."""
        lines = self.log().splitlines()
        for line in lines[self._read :]:
            if line.startswith("{"):
                self._events[msgspec.json.decode(line).get("event", "")] += 1
        self._read = len(lines)
        return self._events[name]

    async def ready(self, timeout_s: float) -> None:
        """Wait until a gateway says that it is ready. Raises `RuntimeError` with the log's end."""
        end = time.monotonic() + timeout_s
        async with httpx.AsyncClient(timeout=5) as client:
            while time.monotonic() < end:
                if self._process is not None and self._process.poll() is not None:
                    break
                try:
                    if (await client.get(f"{self.url}/readyz")).status_code == 200:
                        return
                except httpx.HTTPError:
                    pass
                await asyncio.sleep(0.1)
        raise RuntimeError(f"shoal serve did not get ready:\n{self.log()[-2000:]}")

    async def recovered(self, part: str, timeout_s: float) -> None:
        """Wait until as many processes of this part run as before, and the stack is ready."""
        end = time.monotonic() + timeout_s
        wanted = 1 if part == "broker" else 2
        while len(self.pids(part)) < wanted:
            if time.monotonic() > end:
                raise RuntimeError(f"{part} did not come back:\n{self.log()[-2000:]}")
            await asyncio.sleep(0.05)
        await self.ready(timeout_s)

    async def metric_sum(self, name: str) -> float:
        """A gateway counter, from whichever gateway answers first on each of several connections."""
        best = 0.0
        for _ in range(8):
            async with httpx.AsyncClient(timeout=5) as client:
                text = (await client.get(f"{self.url}/metrics")).text
            lines = [x for x in text.splitlines() if x.startswith(f"shoal_gateway_{name}")]
            values = [float(line.rsplit(" ", 1)[1]) for line in lines]
            best = max(best, sum(values))
        return best

    def pids(self, part: str) -> list[int]:
        """Process ids of a part: ``gateway``, ``worker``, ``runtime``, ``broker``."""
        return [p.pid for p in self.processes() if PARTS[part] in p.command]

    def processes(self) -> list[Process]:
        """All descendants of `shoal serve`, and itself."""
        assert self._process is not None
        everything = {p.pid: p for p in map(_process, _pids()) if p is not None}
        own = {self._process.pid}
        while True:
            more = {p.pid for p in everything.values() if p.parent in own} - own
            if not more:
                return [everything[pid] for pid in sorted(own) if pid in everything]
            own |= more


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _process(pid: int) -> Process | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except (OSError, UnicodeDecodeError):
        return None
    return Process(pid, int(stat.rpartition(")")[2].split()[1]), command)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
