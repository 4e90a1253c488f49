"""All processes of one machine as `shoal serve` runs them: in what order they start and stop.

Broker, then workers and gateways; back again in the other order, so that no request that was
accepted is lost. It knows no models and shows nothing.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec

from shoal.broker.connection import Connection
from shoal.broker.server import BrokerServer
from shoal.cli.context import Given, child_environment
from shoal.cli.processes import Child, Keeper
from shoal.settings import CommonSettings, GatewaySettings, ServeSettings, WorkerSettings

#: What a process may take beyond its own `drain_s` before it is killed.
STOP_MARGIN_S = 5.0


class Plan(msgspec.Struct, frozen=True):
    """What to run. `given` is what the caller said, which the children load for themselves."""

    given: Given
    serve: ServeSettings
    gateway: GatewaySettings
    worker: WorkerSettings
    store_dir: str
    port: int
    models: list[str]
    catalog: list[str]


class Stack:
    """The processes of one machine. `start`, then `run` until `stop`; `kill` ends all at once."""

    def __init__(self, plan: Plan, report: Callable[[str], None]) -> None:
        self._plan = plan
        self._report = report
        self._tiers: list[list[Keeper]] = []  # in the order in which they start
        self._runs: list[asyncio.Task[None]] = []
        self._stop = asyncio.Event()
        self.broker_url = plan.serve.broker_url or ""

    async def start(self) -> None:
        """Start everything; call `close` in any case.

        Raises:
            BrokerError, Unavailable, ConfigError: there is no broker, saying what to do.
        """
        if self._plan.serve.broker_url:
            await _try_broker(self._plan.serve)
        else:
            broker = BrokerServer(_broker_settings(self._plan))
            await self._start_tier([Keeper("the broker", broker, self._report)])
            self.broker_url = broker.url
        await self._start_tier([self._worker(n) for n in range(self._plan.worker.workers)])
        await self._start_tier([self._gateway(n) for n in range(self._plan.serve.gateways)])

    async def run(self, beside: Coroutine[Any, Any, None]) -> None:
        """Run `beside` too; return, and cancel it, once `stop` was called.

        Raises:
            ProcessFailed: a process cannot be kept alive; or what `beside` raises.
        """
        own = [asyncio.create_task(self._stop.wait()), asyncio.create_task(beside)]
        try:
            done, _ = await asyncio.wait([*own, *self._runs], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in own:
                task.cancel()
            await asyncio.gather(*own, return_exceptions=True)

    def stop(self) -> None:
        """Let `run` return."""
        self._stop.set()

    async def close(self) -> None:
        """End all: gateways once they have answered, then workers, then the broker."""
        for tier in reversed(self._tiers):
            await asyncio.gather(*(keeper.stop() for keeper in tier))
        await asyncio.gather(*self._runs, return_exceptions=True)

    def kill(self) -> None:
        """End all at once; what is on the queue stays there."""
        for tier in self._tiers:
            for keeper in tier:
                keeper.kill()

    async def _start_tier(self, tier: list[Keeper]) -> None:
        self._tiers.append([])
        for keeper in tier:
            await keeper.start()
            self._tiers[-1].append(keeper)
            self._runs.append(asyncio.create_task(keeper.run()))

    def _worker(self, number: int) -> Keeper:
        plan = self._plan
        settings: dict[str, Any] = {"models": plan.models, "catalog": plan.catalog}
        if plan.worker.health_port:
            settings["health_port"] = plan.worker.health_port + number
        name = "the worker" if plan.worker.workers == 1 else f"worker {number + 1}"
        return self._keeper(name, "worker", settings, plan.worker.drain_s)

    def _gateway(self, number: int) -> Keeper:
        plan = self._plan
        # Always shared: `serve` holds the port too, so that nobody takes it during a restart.
        settings = {"port": plan.port, "reuse_port": True, "catalog": plan.catalog}
        name = "the gateway" if plan.serve.gateways == 1 else f"gateway {number + 1}"
        return self._keeper(name, "gateway", settings, plan.gateway.drain_s)

    def _keeper(self, name: str, role: str, settings: dict[str, Any], drain_s: float) -> Keeper:
        shared = {"broker_url": self.broker_url, "payload_url": _payload_url(self._plan)}
        env = child_environment(self._plan.given, {**settings, **shared})
        command = [sys.executable, "-m", "shoal", role]
        return Keeper(name, Child(command, env, drain_s + STOP_MARGIN_S), self._report)


def _broker_settings(plan: Plan) -> CommonSettings:
    return msgspec.structs.replace(plan.serve, store_dir=plan.store_dir)


def _payload_url(plan: Plan) -> str | None:
    """A folder beside the store of a broker that runs here; a cluster has to name what it shares."""
    if plan.serve.payload_url or plan.serve.broker_url:
        return plan.serve.payload_url
    store = Path(plan.store_dir).absolute()
    return store.with_name(f"{store.name}-payloads").as_uri()


async def _try_broker(settings: CommonSettings) -> None:
    """One clear error here is better than the same from every process, again and again."""
    connection = await Connection.open(settings, "shoal-serve")
    await connection.close()
