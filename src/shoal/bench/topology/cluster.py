"""The processes of the topology benchmark: one broker, and workers and gateways in pools.

Decides how they are started, watched and ended. It must not know what is measured.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import msgspec

from shoal.bench.failure import BenchFailed
from shoal.bench.processes import cpu_s, descendants
from shoal.bench.rivals import free_port
from shoal.broker.orphans import dying_with_us
from shoal.broker.server import BrokerServer
from shoal.settings import CommonSettings

#: Twenty processes that import, connect and load share two cores.
START_S = 180.0
STOP_S = 20.0
_POLL_S = 0.1


class Process(msgspec.Struct):
    """One process, where it says that it is ready, and its log."""

    popen: subprocess.Popen[bytes]
    port: int
    log: Path

    def ready(self) -> bool:
        """Whether it would answer.

        Raises:
            BenchFailed: it ended.
        """
        if self.popen.poll() is not None:
            lines = self.log.read_text(errors="replace").splitlines()
            raise BenchFailed("a process ended at start:\n" + "\n".join(lines[-20:]))
        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(f"http://127.0.0.1:{self.port}/readyz", timeout=5).status_code == 200
        return False


class Deployment:
    """Workers, and the gateways before them."""

    def __init__(self, name: str, workers: list[Process], gateways: list[Process]) -> None:
        self.name = name
        self.workers = workers
        self.gateways = gateways

    @property
    def targets(self) -> list[tuple[str, int]]:
        """Where its gateways listen."""
        return [("127.0.0.1", gateway.port) for gateway in self.gateways]

    def cpu_s(self) -> float:
        """Processor time of all its processes so far, those that workers started included."""
        own = [*self.workers, *self.gateways]
        return cpu_s({pid for process in own for pid in descendants(process.popen.pid)})

    def counters(self) -> dict[str, float]:
        """Sums over all workers and labels of the workers' metrics."""
        sums: defaultdict[str, float] = defaultdict(float)
        with httpx.Client(timeout=10) as client:
            for worker in self.workers:
                text = client.get(f"http://127.0.0.1:{worker.port}/metrics").text
                for name, value in _samples(text):
                    sums[name] += value
        return sums


def _samples(text: str) -> Iterator[tuple[str, float]]:
    """Name and value of each sample; a full parser takes a second for all workers."""
    for line in text.splitlines():
        if not line.startswith("#"):
            yield line.partition("{")[0].partition(" ")[0], float(line.rpartition(" ")[2])


class Cluster:
    """Starts processes at a broker; made by `running`, which ends them all."""

    def __init__(self, folder: Path, broker: BrokerServer, cards: Path) -> None:
        assert broker.pid is not None, "started"
        self.broker_pid = broker.pid
        self.broker_url = broker.url
        self._folder = folder
        self._common = {"broker_url": broker.url, "catalog": cards, "log_level": "warning"}
        self._started: list[Process] = []

    def worker(self, pool: str, models: Sequence[str], lanes: int) -> Process:
        """A worker with CPU lanes that keeps these models."""
        port = free_port()
        settings = {"pool": pool, "models": ",".join(models), "lanes": ",".join(["cpu"] * lanes)}
        settings |= {"on_demand": "false", "threads": "1", "health_port": str(port)}
        return self._start(["shoal.cli", "worker"], settings, port)

    def gateway(self, pool: str, router: Sequence[str] = (), keys: Sequence[str] = ()) -> Process:
        """A gateway, or a push router with these arguments. `keys`: ``name:key`` each."""
        port = free_port()
        command = ["shoal.bench.topology.router", *router] if router else ["shoal.cli", "gateway"]
        settings = {"pool": pool, "port": str(port), "api_keys": ",".join(keys)}
        return self._start(command, settings, port)

    def wait_until_ready(self) -> None:
        """Raises `BenchFailed` if a process ends or takes too long."""
        deadline = time.monotonic() + START_S
        for process in self._started:
            while not process.ready():
                if time.monotonic() > deadline:
                    raise BenchFailed(f"not ready after {START_S:g} s: {process.log.read_text()}")
                time.sleep(_POLL_S)

    def close(self) -> None:
        """End all; what they were doing does not matter any more."""
        for process in self._started:
            process.popen.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + STOP_S
        for process in self._started:
            try:
                process.popen.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.popen.kill()
                process.popen.wait()

    def _start(self, command: list[str], settings: Mapping[str, str], port: int) -> Process:
        log = self._folder / f"{len(self._started)}.log"
        with log.open("wb") as file:
            popen = subprocess.Popen(
                [sys.executable, "-m", *command],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env=_environment({**self._common, **settings}),
                preexec_fn=dying_with_us(signal.SIGKILL),
            )
        process = Process(popen, port, log)
        self._started.append(process)
        return process


@contextlib.asynccontextmanager
async def running(cards: Mapping[str, str]) -> AsyncIterator[Cluster]:
    """A broker, and a cluster that has no processes yet. `cards`: by model, beside the catalog's.

    Raises:
        BrokerError: no broker could be started.
    """
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="shoal-bench-")))
        (folder / "cards").mkdir()
        for name, card in cards.items():
            (folder / "cards" / f"{name}.yaml").write_text(card)
        broker = BrokerServer(CommonSettings(store_dir=str(folder / "broker")))
        await broker.start()
        stack.push_async_callback(broker.stop)
        cluster = Cluster(folder, broker, folder / "cards")
        stack.callback(cluster.close)
        yield cluster


def _environment(settings: Mapping[str, Any]) -> dict[str, str]:
    """Ours, with these settings and none that belong to another deployment."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SHOAL_")}
    return {**kept, **{f"SHOAL_{key.upper()}": str(value) for key, value in settings.items()}}
