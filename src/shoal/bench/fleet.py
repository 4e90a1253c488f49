"""Two machines and a broker for fault injection: `shoal serve` twice, each behind a proxy of its own.

Starts and ends them, says how they are, and keeps the broker alive. Their payload store is a folder
that outlives them all. The second machine's clock is an hour ahead. It must not know which faults
there are.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

from shoal.bench.failure import BenchFailed
from shoal.bench.proxy import Proxy
from shoal.bench.questions import CARDS, FILES_MODEL, LANE_MB, MODEL
from shoal.bench.serving import Serving
from shoal.broker import letters
from shoal.broker.connection import Connection
from shoal.broker.server import BrokerServer
from shoal.errors import Unavailable
from shoal.settings import CommonSettings
from shoal.values import TrafficClass
from shoal.wire import subjects

MACHINES = 2
#: Short, so that a killed worker's units come back within seconds.
ACK_WAIT_S = 2.0
#: How long things may take to be as they were: a half-open connection is found after 15 s.
RECOVERY_S = 60.0
SKEW_S = 3600.0
SKEWED = f"""\
import time
_time, _time_ns = time.time, time.time_ns
time.time = lambda: _time() + {SKEW_S}
time.time_ns = lambda: _time_ns() + int({SKEW_S} * 1e9)
"""
_POLL_S = 0.1


class Machine:
    """One `shoal serve` with a gateway and a worker, and its link to the broker."""

    def __init__(self, number: int, serving: Serving, proxy: Proxy) -> None:
        self.number = number
        self.serving = serving
        self.proxy = proxy

    def pid(self, role: str) -> int | None:
        """Its process of this role; None while there is none."""
        found = self.serving.roles()[role]
        return found[0] if found else None

    def well(self) -> bool:
        """Whether all its processes are there and say that they would answer."""
        roles = self.serving.roles()
        here = all(len(roles[role]) == 1 for role in ("gateway", "worker", "runtime"))
        return here and self.serving.ready() and self.serving.worker_ready()


class Fleet:
    """The broker and the machines; made by `running`."""

    def __init__(self, broker: BrokerServer, machines: list[Machine], payloads: Path) -> None:
        self.broker = broker
        self.machines = machines
        self._payloads = payloads

    @property
    def urls(self) -> list[str]:
        return [machine.serving.url for machine in self.machines]

    def logged(self, event: str) -> int:
        """How often any process logged this event."""
        return sum(m.serving.log().count(f'"event":"{event}"') for m in self.machines)

    def log_end(self) -> str:
        """The end of every machine's log."""
        return "\n".join(f"machine {m.number}:\n{m.serving.log_end()}" for m in self.machines)

    async def well(self) -> None:
        """Wait until everything runs again. Raises `BenchFailed`."""
        await _until(self._all_well, "not everything came back")

    def _all_well(self) -> bool:
        return all(machine.well() for machine in self.machines)

    async def emptied(self) -> None:
        """Wait until the payload store is empty. Raises `BenchFailed`.

        What a gateway holds there when it is killed stays until the sweep, ten minutes and more.
        """
        await _until(lambda: not any(self._payloads.iterdir()), "payloads were not deleted")

    async def settled(self) -> int:
        """Wait until no unit is on the queue; returns how many dead letters there are."""
        settings = CommonSettings(broker_url=self.broker.url)
        connection = await Connection.open(settings, "chaos")
        try:
            async with asyncio.timeout(RECOVERY_S):
                while await _units(connection):  # noqa: ASYNC110
                    await asyncio.sleep(_POLL_S)
            return sum([1 async for _ in letters.letters(connection)])
        except TimeoutError:
            raise BenchFailed("units are still on the queue though all was answered") from None
        finally:
            await connection.close()


async def _units(connection: Connection) -> int:
    streams = [subjects.stream(klass) for klass in get_args(TrafficClass)]
    answers = [await connection.api(f"STREAM.INFO.{s}", {}, dict[str, Any]) for s in streams]
    return sum(int(answer["state"]["messages"]) for answer in answers)


async def _until(condition: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + RECOVERY_S
    while not await asyncio.to_thread(condition):
        if time.monotonic() > deadline:
            raise BenchFailed(f"{otherwise} within {RECOVERY_S:g} s")
        await asyncio.sleep(_POLL_S)


@contextlib.asynccontextmanager
async def running() -> AsyncIterator[Fleet]:
    """Start all, wait until all is well; end all."""
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="shoal-chaos-")))
        payloads, cards = folder / "payloads", folder / "cards"
        payloads.mkdir()
        cards.mkdir()
        for name, card in CARDS.items():
            (cards / f"{name}.yaml").write_text(card)
        broker = BrokerServer(CommonSettings(store_dir=str(folder / "store")))
        await broker.start()
        stack.push_async_callback(broker.stop)
        machines = [await _machine(number, folder, broker, stack) for number in range(MACHINES)]
        keeper = asyncio.create_task(_keep(broker))
        stack.callback(keeper.cancel)
        fleet = Fleet(broker, machines, payloads)
        await fleet.well()
        yield fleet


async def _machine(
    number: int, folder: Path, broker: BrokerServer, stack: contextlib.AsyncExitStack
) -> Machine:
    proxy = Proxy(broker.port)
    await proxy.start()
    stack.push_async_callback(proxy.close)
    flags = ["--ack-wait-s", str(ACK_WAIT_S), "--catalog", str(folder / "cards")]
    flags += ["--broker-url", f"nats://127.0.0.1:{proxy.port}", "--log-format", "json"]
    flags += ["--payload-url", (folder / "payloads").as_uri()]
    flags += ["--memory-bytes", str(LANE_MB * 1_000_000)]
    environment = _skewed(folder) if number == MACHINES - 1 else {}
    serving = await asyncio.to_thread(Serving, [MODEL, FILES_MODEL, *flags], environment)
    stack.push_async_callback(asyncio.to_thread, serving.__exit__)
    return Machine(number, serving, proxy)


def _skewed(folder: Path) -> dict[str, str]:
    """Variables under which every Python process is an hour ahead."""
    site = folder / "skewed"
    site.mkdir()
    (site / "sitecustomize.py").write_text(SKEWED)
    return {"PYTHONPATH": os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])}


async def _keep(broker: BrokerServer) -> None:
    """Start the broker again whenever it dies."""
    while True:
        await broker.wait()
        with contextlib.suppress(Unavailable):
            await broker.start()
