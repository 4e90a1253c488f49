"""The processes of the topology benchmark: one broker, and workers and gateways in pools.

Decides how they are started, watched and ended. It must not know what is measured.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

from shoal.bench.child import START_S, Child, answers, without_settings
from shoal.bench.load import Target
from shoal.bench.ports import free_port
from shoal.bench.processes import cpu_s, descendants
from shoal.bench.serving import counters
from shoal.broker.server import BrokerServer
from shoal.settings import CommonSettings

STOP_S = 20.0


class Process(Child):
    """A gateway or a worker, and where it says how it is."""

    def __init__(
        self, command: Sequence[str], log: Path, port: int, settings: Mapping[str, object]
    ) -> None:
        self.port = port
        env = {f"SHOAL_{key.upper()}": str(value) for key, value in settings.items()}
        whole = [sys.executable, "-m", *command]
        super().__init__(" ".join(command), whole, log, {**without_settings(), **env})

    def ready(self) -> bool:
        """Whether it would answer."""
        return answers(f"http://127.0.0.1:{self.port}/readyz")


class Deployment:
    """Workers, and the gateways before them."""

    def __init__(self, name: str, workers: list[Process], gateways: list[Process]) -> None:
        self.name = name
        self.workers = workers
        self.gateways = gateways

    @property
    def targets(self) -> list[Target]:
        """Where its gateways listen."""
        return [("127.0.0.1", gateway.port) for gateway in self.gateways]

    def cpu_s(self) -> float:
        """Processor time of all its processes so far, those that workers started included."""
        own = [*self.workers, *self.gateways]
        return cpu_s({pid for process in own for pid in descendants(process.pid)})

    def counters(self) -> dict[str, float]:
        """Sums over all workers and labels of the workers' metrics."""
        return counters(worker.port for worker in self.workers)


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
        return self._start(["shoal", "worker"], port, settings)

    def gateway(self, pool: str, router: Sequence[str] = ()) -> Process:
        """A gateway, or a push router with these arguments."""
        command = ["shoal.bench.topology.router", *router] if router else ["shoal", "gateway"]
        port = free_port()
        return self._start(command, port, {"pool": pool, "port": str(port)})

    def wait_until_ready(self) -> None:
        """Raises `Unavailable` if a process ends or takes too long."""
        deadline = time.monotonic() + START_S
        for process in self._started:
            process.wait_until(process.ready, deadline - time.monotonic())

    def close(self) -> None:
        """End all; what they were doing does not matter any more."""
        for process in self._started:
            process.tell(signal.SIGTERM)
        deadline = time.monotonic() + STOP_S
        for process in self._started:
            process.wait_for_end(max(0.0, deadline - time.monotonic()))

    def _start(self, command: list[str], port: int, settings: Mapping[str, str]) -> Process:
        log = self._folder / f"{len(self._started)}.log"
        self._started.append(Process(command, log, port, {**self._common, **settings}))
        return self._started[-1]


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
