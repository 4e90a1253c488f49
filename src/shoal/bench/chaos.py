"""`python -m shoal.bench chaos`: is every request answered, once and rightly, whatever dies?

Two gateways and two workers over one broker, on two machines whose clocks are an hour apart. In each
phase one kind of fault strikes again and again while requests of all kinds keep coming. Which process
it strikes and when is drawn from a seed. Every answer is compared with what its own items must give.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Iterator
from typing import Annotated

import msgspec

from shoal.bench import fleet as fleets
from shoal.bench import report
from shoal.bench.benchmark import option
from shoal.bench.callers import Callers, Tally, added
from shoal.bench.failure import BenchFailed
from shoal.bench.fleet import Fleet
from shoal.bench.strikes import PHASES, Blow, Phase
from shoal.errors import ShoalError

#: What processes log that counts, in the order of `Outcome`.
EVENTS = ("redelivered", "duplicate_reply", "evicting")


class Plan(msgspec.Struct, frozen=True):
    """How much to do."""

    requests: Annotated[int, option("In all, through kills of workers, runtimes, broker")] = 10_000
    strikes: Annotated[int, option("Faults of each kind")] = 3
    gap_s: Annotated[float, option("Seconds between two, about")] = 2.0
    seed: Annotated[int, option("Draws which process is struck, and when")] = 1
    only: Annotated[list[str], option("Phases, such as 'kill worker'")] = []


class Outcome(msgspec.Struct, frozen=True):
    """What happened in one phase; `tallies`: by kind of request."""

    phase: str
    strikes: int
    tallies: dict[str, Tally]
    redelivered: int
    seconds_dropped: int
    evicted: int

    @property
    def tally(self) -> Tally:
        """All kinds together."""
        return added(self.tallies.values())

    @property
    def good(self) -> bool:
        return all(
            0 < tally.requests == tally.answered and not tally.wrong and not tally.unasked
            for tally in self.tallies.values()
        )


class Result(report.Result, frozen=True):
    """A whole run; `letters`: dead letters on the broker at its end."""

    seed: int
    outcomes: list[Outcome]
    letters: int


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
                if not any(outcome.phase == "kill gateway" for outcome in outcomes):
                    await fleet.emptied()
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
    before = {event: fleet.logged(event) for event in EVENTS}
    callers = Callers(fleet.urls, phase.name, retry=phase.retry)
    counted = sum(p.counts for p in PHASES if not plan.only or p.name in plan.only)
    wanted = -(-plan.requests // counted) if phase.counts else 0
    struck = asyncio.Event()
    load = asyncio.create_task(callers.run(lambda: struck.is_set() and callers.requests >= wanted))
    try:
        for _ in range(plan.strikes):
            await asyncio.sleep(plan.gap_s * chance.uniform(0.5, 1.5))
            await phase.strike(Blow(fleet, callers, chance))
            await fleet.well()
    finally:
        struck.set()
        await load
    seen = [fleet.logged(event) - before[event] for event in EVENTS]
    outcome = Outcome(phase.name, plan.strikes, callers.tallies, *seen)
    if phase.name == "kill worker" and not outcome.redelivered:
        raise BenchFailed("no unit was redelivered: the kills found no work under way")
    if not outcome.good:
        raise BenchFailed(f"not every request was answered as it must\n{table([outcome])}")
    return outcome


def table(outcomes: list[Outcome]) -> str:
    """What happened, by fault and by kind of request, as Markdown."""
    notes = [f"{o.phase}: {dict(o.tally.failures)}" for o in outcomes if o.tally.failures]
    return "\n\n".join([_by_fault(outcomes), _by_kind(outcomes), *notes])


_COUNTS = ["requests", "answered", "wrong", "answered twice", "asked again", "broken connections"]


def _counts(tally: Tally) -> list[int]:
    """Under `_COUNTS`."""
    said = (tally.requests, tally.answered, tally.wrong, tally.unasked)
    return [*said, tally.retries, tally.broken]


def _by_fault(outcomes: list[Outcome]) -> str:
    more = ["redelivered", "second answers dropped", "evicted", "slowest, s"]
    rows = []
    for o in outcomes:
        tally = o.tally
        seen = (o.redelivered, o.seconds_dropped, o.evicted, tally.slowest_s)
        rows.append([o.phase, o.strikes, *_counts(tally), *seen])
    return report.table(["fault", "times", *_COUNTS, *more], rows)


def _by_kind(outcomes: list[Outcome]) -> str:
    """Of all faults together, and of the kills of workers, runtimes and broker alone."""
    counted = {phase.name for phase in PHASES if phase.counts}
    rows = []
    for kind in outcomes[0].tallies:
        tally = added(o.tallies[kind] for o in outcomes)
        kills = added(o.tallies[kind] for o in outcomes if o.phase in counted)
        rows.append([kind, *_counts(tally), kills.answered, tally.slowest_s])
    return report.table(["kind", *_COUNTS, "of them through kills", "slowest, s"], rows)


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
