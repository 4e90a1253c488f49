"""`python -m shoal.bench chaos`: is every request answered, once and rightly, whatever dies?

Two gateways and two workers over one broker, on two machines whose clocks are an hour apart. In each
phase one kind of fault strikes again and again while requests keep coming. Which process it strikes
and when is drawn from a seed. Every answer is compared with what its own text must give.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import time
from collections.abc import Awaitable, Callable, Iterator

import msgspec

from shoal.bench import fleet as fleets
from shoal.bench import report
from shoal.bench.callers import Callers, Tally, expires_in_time
from shoal.bench.failure import BenchFailed
from shoal.bench.fleet import Fleet, Machine
from shoal.bench.processes import paused
from shoal.errors import ShoalError

#: How long a process is stopped: longer than `ack_wait_s`, so that its units go to others.
STOPPED_S = 3.0
CUT_S = 3.0
DELAY_S = 0.05
#: Requests whose deadline passes while no worker runs, and that deadline.
LATE, LATE_S = 20, 1.0

Strike = Callable[["Blow"], Awaitable[None]]


class Plan(msgspec.Struct, frozen=True):
    """How much to do. `requests`: in all, through the kills of workers, runtimes and broker."""

    requests: int = 10_000
    strikes: int = 3
    gap_s: float = 2.0
    seed: int = 1
    only: list[str] = []


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


class Outcome(msgspec.Struct, frozen=True):
    """What happened in one phase."""

    phase: str
    strikes: int
    tally: Tally
    redelivered: int
    seconds_dropped: int

    @property
    def good(self) -> bool:
        tally = self.tally
        return 0 < tally.requests == tally.answered and not tally.wrong and not tally.unasked


class Result(msgspec.Struct, frozen=True):
    """A whole run; `letters`: dead letters on the broker at its end."""

    machine: report.Machine
    seed: int
    outcomes: list[Outcome]
    letters: int


# --- the faults -----------------------------------------------------------------------------------


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


# --- a run ----------------------------------------------------------------------------------------


async def run(plan: Plan, tell: Callable[[str], None]) -> Result:
    """All phases on one fleet.

    Raises:
        BenchFailed: something did not come back, or requests were not answered as they must; with
            the seed, the phase, and the end of the log.
    """
    phases = [p for p in PHASES if not plan.only or p.name in plan.only]
    outcomes: list[Outcome] = []
    async with fleets.running() as fleet:
        for phase in phases:
            with _told(plan, phase.name, fleet, tell):
                outcomes.append(await _phase(plan, phase, fleet))
            tell(f"{phase.name}: {outcomes[-1].tally.answered} answered")
        with _told(plan, "the end", fleet, tell):
            letters = await fleet.settled()
    result = Result(report.this_machine(["nats-py"]), plan.seed, outcomes, letters)
    dead = sum(outcome.tally.dead for outcome in outcomes)
    if letters != dead:
        raise BenchFailed(f"seed {plan.seed}: {letters} dead letters for {dead} poisoned requests")
    return result


@contextlib.contextmanager
def _told(plan: Plan, phase: str, fleet: Fleet, tell: Callable[[str], None]) -> Iterator[None]:
    """Say with a failure how to have it again, and show the end of the log."""
    try:
        yield
    except ShoalError as error:
        tell(fleet.log_end())
        raise BenchFailed(f"seed {plan.seed}, phase '{phase}': {error.message}") from error


async def _phase(plan: Plan, phase: Phase, fleet: Fleet) -> Outcome:
    chance = random.Random(f"{plan.seed} {phase.name}")
    redelivered, dropped = fleet.logged("redelivered"), fleet.logged("duplicate_reply")
    callers = Callers(fleet.urls, phase.name, retry=phase.retry)
    counted = sum(p.counts for p in PHASES if not plan.only or p.name in plan.only)
    wanted = -(-plan.requests // counted) if phase.counts else 0
    struck = asyncio.Event()
    load = asyncio.create_task(
        callers.run(lambda: struck.is_set() and callers.tally.requests >= wanted)
    )
    try:
        for _ in range(plan.strikes):
            await asyncio.sleep(plan.gap_s * chance.uniform(0.5, 1.5))
            await phase.strike(Blow(fleet, callers, chance))
            await fleet.well()
    finally:
        struck.set()
        tally = await load
    outcome = Outcome(
        phase.name,
        plan.strikes,
        tally,
        fleet.logged("redelivered") - redelivered,
        fleet.logged("duplicate_reply") - dropped,
    )
    if not outcome.good:
        raise BenchFailed(f"not every request was answered as it must\n{table([outcome])}")
    return outcome


def table(outcomes: list[Outcome]) -> str:
    """What happened, as Markdown."""
    head = [
        "fault",
        "times",
        "requests",
        "answered",
        "wrong",
        "answered twice",
        "asked again",
        "broken connections",
        "redelivered",
        "second answers dropped",
        "slowest, s",
    ]
    rows = [
        [
            o.phase,
            o.strikes,
            o.tally.requests,
            o.tally.answered,
            o.tally.wrong,
            o.tally.unasked,
            o.tally.retries,
            o.tally.broken,
            o.redelivered,
            o.seconds_dropped,
            o.tally.slowest_s,
        ]
        for o in outcomes
    ]
    notes = [f"{o.phase}: {dict(o.tally.failures)}" for o in outcomes if o.tally.failures]
    return "\n".join([report.table(head, rows), *notes])


def quick(plan: Plan) -> Plan:
    """`plan` cut down to a minute: one fault of each kind that a test of every change can afford."""
    only = ["kill worker", "kill runtime", "kill broker", "stop worker", "cut worker", "poison"]
    return msgspec.structs.replace(plan, requests=900, strikes=1, gap_s=1.0, only=only)


def measure(plan: Plan, tell: Callable[[str], None]) -> Result:
    """`run`, and the time it took. Raises as `run`."""
    known = [phase.name for phase in PHASES]
    unknown = [name for name in plan.only if name not in known]
    if unknown:
        raise BenchFailed(f"there is no phase '{unknown[0]}'; there are {', '.join(known)}")
    began = time.monotonic()
    result = asyncio.run(run(plan, tell))
    tell(f"{time.monotonic() - began:.0f} s")
    return result
