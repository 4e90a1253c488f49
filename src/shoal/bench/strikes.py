"""The faults of `chaos`: what each does to a process or a link, and what callers must then do.

Decides how long a fault lasts and where it strikes, by chance. It must not know what is measured.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Awaitable, Callable

import msgspec

from shoal.bench.callers import Callers, expires_in_time
from shoal.bench.failure import BenchFailed
from shoal.bench.fleet import Fleet, Machine
from shoal.bench.processes import paused

#: How long a process is stopped: longer than `ack_wait_s`, so that its units go to others.
STOPPED_S = 3.0
CUT_S = 3.0
DELAY_S = 0.05
#: Requests whose deadline passes while no worker runs, and that deadline.
LATE, LATE_S = 20, 1.0

Strike = Callable[["Blow"], Awaitable[None]]


class Blow(msgspec.Struct, frozen=True):
    """What a fault has at hand when it strikes."""

    fleet: Fleet
    callers: Callers
    chance: random.Random

    def machine(self) -> Machine:
        return self.chance.choice(self.fleet.machines)

    def pid(self, role: str) -> int:
        """A process of this role, by chance. Raises `BenchFailed` if its machine has none."""
        machine = self.machine()
        pid = self.fleet.broker.pid if role == "broker" else machine.pid(role)
        if pid is None:
            raise BenchFailed(f"machine {machine.number} has no {role}")
        return pid


class Phase(msgspec.Struct, frozen=True):
    """A kind of fault. `retry`: callers must ask again, as the page on faults says.

    `counts`: its requests are among those of the plan.
    """

    name: str
    strike: Strike
    retry: bool = False
    counts: bool = False


def _kill(role: str) -> Strike:
    async def strike(blow: Blow) -> None:
        os.kill(blow.pid(role), signal.SIGKILL)

    return strike


def _stop(role: str) -> Strike:
    async def strike(blow: Blow) -> None:
        with paused([blow.pid(role)]):
            await asyncio.sleep(STOPPED_S)

    return strike


def _cut(role: str) -> Strike:
    async def strike(blow: Blow) -> None:
        proxy = blow.machine().proxy
        proxy.cut(role)
        await asyncio.sleep(CUT_S)
        proxy.heal()

    return strike


async def _silence(blow: Blow) -> None:
    """Half-open: both ends believe in a connection over which nothing comes any more."""
    blow.machine().proxy.silence(blow.chance.choice(["worker", "gateway"]))


async def _delay(blow: Blow) -> None:
    proxy = blow.machine().proxy
    proxy.delay_s = DELAY_S
    await asyncio.sleep(STOPPED_S)
    proxy.heal()


async def _poison(blow: Blow) -> None:
    await blow.callers.bomb()


async def _expire(blow: Blow) -> None:
    """No worker runs, so that deadlines pass: on both gateways, whatever their clocks say."""
    workers = [pid for m in blow.fleet.machines if (pid := m.pid("worker")) is not None]
    with paused(workers):
        urls = [blow.fleet.urls[n % len(blow.fleet.urls)] for n in range(LATE)]
        held = await asyncio.gather(*(expires_in_time(url, LATE_S) for url in urls))
    if not all(held):
        raise BenchFailed(f"{held.count(False)} of {LATE} requests missed their deadline's 504")


PHASES = [
    Phase("kill worker", _kill("worker"), counts=True),
    Phase("kill runtime", _kill("runtime"), counts=True),
    Phase("kill broker", _kill("broker"), retry=True, counts=True),
    Phase("kill gateway", _kill("gateway"), retry=True),
    Phase("stop worker", _stop("worker")),
    Phase("stop runtime", _stop("runtime")),
    Phase("stop gateway", _stop("gateway")),
    Phase("stop broker", _stop("broker")),
    Phase("cut worker", _cut("worker")),
    Phase("cut gateway", _cut("gateway"), retry=True),
    Phase("half-open", _silence, retry=True),
    Phase("slow network", _delay),
    Phase("poison", _poison),
    Phase("deadlines", _expire),
]
