"""What a worker knows of the queues it pulls from, and its open pull requests.

It keeps what was told; what to ask for is decided in `core.pulling`. A queue with an open standing
pull holds nothing for us: whatever came would have been delivered.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from itertools import takewhile

from shoal.core.events import (
    Arrived,
    Instruction,
    PeerPulled,
    Pull,
    PullEnded,
    UnitHead,
    Withdraw,
)
from shoal.core.inflow import Inflow
from shoal.core.urgency import PATIENCE_S, due_of
from shoal.values import TrafficClass

NEVER = float("-inf")
#: A model that brought a unit within this time is in use.
IN_USE_S = 1.0
#: How often those are counted: with hundreds of them it takes as long as forming a batch.
COUNT_S = 0.02


class Source:
    """The queue of one model and class, as far as this worker was told of it.

    Attributes:
        pending: units that waited in it at `told_at`.
        due: its head is not due before (as `due_of`).
        came_at: when it last brought a unit.
        asked: units of the open batch pull that have not come.
        inflow: how fast units come to it.
        asked_at: when that was opened; None once what it brought is prepared, or if it brought nothing.
        wanted_until: bulk is asked for only while some gateway says that there is any.
    """

    __slots__ = (
        "asked",
        "asked_at",
        "batch",
        "came_at",
        "due",
        "inflow",
        "klass",
        "model",
        "pending",
        "standing",
        "told_at",
        "wanted_until",
    )

    def __init__(self, model: str, klass: TrafficClass) -> None:
        self.model = model
        self.klass = klass
        self.pending = 0
        self.told_at = NEVER
        self.due = 0.0
        self.came_at = NEVER
        self.standing: int | None = None
        self.batch: int | None = None
        self.asked = 0
        self.asked_at: float | None = None
        self.wanted_until = NEVER
        self.inflow = Inflow()

    @property
    def watched(self) -> bool:
        """Whether a pull is open, so that we hear of what comes."""
        return self.standing is not None or self.batch is not None

    def expected(self, now: float) -> float:
        """Units that wait: those it was told of, and what should have come since."""
        rate = self.inflow.rate
        return self.pending + rate * (now - self.told_at) if rate else self.pending

    def empty(self, now: float) -> None:
        """Nothing waits: whatever comes is published later than now."""
        self.inflow.saw(-self.pending, now - self.told_at)
        self.pending, self.told_at, self.due = 0, now, now + PATIENCE_S


class Sources:
    """All queues of a worker's models, and the pulls that are open on them.

    Attributes:
        unwatched: by class, those of served models without an open pull.
        asking: those with an open batch pull.
        hot: interactive ones that brought units, the latest last.
    """

    def __init__(self, sources: Iterable[Source]) -> None:
        self._all: dict[TrafficClass, dict[str, Source]] = {"work": {}, "bulk": {}}
        for source in sources:
            self._all[source.klass][source.model] = source
        self.unwatched: dict[TrafficClass, dict[str, Source]] = {"work": {}, "bulk": {}}
        self.asking: dict[int, Source] = {}
        self.hot: OrderedDict[str, Source] = OrderedDict()
        self._open: dict[int, Source] = {}
        self._served: dict[str, None] = {}
        self._next = 1
        self._in_use = 0
        self._count_at = NEVER

    def __len__(self) -> int:
        """Pulls that are open."""
        return len(self._open)

    @property
    def served(self) -> int:
        """Models that are served here."""
        return len(self._served)

    def in_use(self, now: float) -> int:
        """Models that lately brought interactive units."""
        if now >= self._count_at:
            since = now - IN_USE_S
            latest = takewhile(lambda source: source.came_at >= since, reversed(self.hot.values()))
            self._in_use, self._count_at = sum(1 for _ in latest), now + COUNT_S
        return self._in_use

    def get(self, model: str, klass: TrafficClass = "work") -> Source:
        return self._all[klass][model]

    # --- what is served ---------------------------------------------------------------------------

    def serve(self, names: dict[str, None]) -> list[Instruction]:
        """From now on these models are served here, and no others."""
        out: list[Instruction] = []
        for name in [name for name in self._served if name not in names]:
            for klass, sources in self._all.items():
                out += self.withdraw(sources[name])
                self.unwatched[klass].pop(name, None)
        before, self._served = self._served, names
        for name in [name for name in names if name not in before]:
            for sources in self._all.values():
                self._idle(sources[name])
        return out

    def _idle(self, source: Source) -> None:
        """No pull is open on this source."""
        wanted = source.klass == "work" or source.wanted_until > NEVER
        if wanted and source.model in self._served and not source.watched:
            self.unwatched[source.klass][source.model] = source

    def want_bulk(self, models: Iterable[str], now: float, until: float) -> None:
        """There is bulk work for these models; for others, unless it was told lately, there is none."""
        for name in models:
            source = self._all["bulk"][name]
            source.wanted_until = until
            self._idle(source)
        waiting = self.unwatched["bulk"]
        for source in [source for source in waiting.values() if source.wanted_until <= now]:
            source.wanted_until = NEVER
            del waiting[source.model]

    # --- pulls ------------------------------------------------------------------------------------

    def ask(self, source: Source, count: int, *, standing: bool) -> Pull:
        """Open a pull."""
        pull = self._next
        self._next += 1
        self._open[pull] = source
        del self.unwatched[source.klass][source.model]
        if standing:
            source.standing = pull
        else:
            source.batch, source.asked = pull, count
            self.asking[pull] = source
        return Pull(pull, source.model, count, standing, source.klass)

    def withdraw(self, source: Source) -> list[Instruction]:
        """Take back the standing pull."""
        if source.standing is None:
            return []
        pull = source.standing
        self._close(pull)
        return [Withdraw(pull)]

    def withdraw_all(self) -> list[Instruction]:
        standing = [source for pull, source in self._open.items() if source.standing == pull]
        return [i for source in standing for i in self.withdraw(source)]

    def lost(self) -> None:
        """The connection is gone and every pull with it."""
        for pull in list(self._open):
            self._close(pull)

    def ended(self, event: PullEnded, now: float) -> Source | None:
        """The broker ended a pull; the source it was open on, if we thought it was."""
        source = self._open.get(event.pull)
        if source is None:
            return None
        drained = event.pull == source.batch and not source.pending
        self._close(event.pull)
        if event.found_all or (drained and not event.refused):
            source.empty(now)
        return source

    def peer_pulled(self, event: PeerPulled, now: float) -> None:
        """Another worker tells what it leaves in a queue; an open pull of our own knows better."""
        source = self._all[event.klass].get(event.model)
        if source is not None and not source.watched:
            source.pending, source.told_at, source.due = event.pending, now, event.due

    def _close(self, pull: int) -> None:
        source = self._open.pop(pull)
        if source.standing == pull:
            source.standing = None
        else:
            source.batch, source.asked = None, 0
            if source.asked_at is not None and source.came_at < source.asked_at:
                source.asked_at = None
            del self.asking[pull]
        self._idle(source)

    # --- units ------------------------------------------------------------------------------------

    def arrived(self, event: Arrived, now: float) -> bool:
        """Note what a unit tells of its queue; whether it was asked for by a batch pull."""
        unit = event.unit
        source = self._all[unit.klass][unit.model]
        source.inflow.saw(1 + event.pending - source.pending, now - source.told_at)
        source.pending, source.told_at, source.due = event.pending, now, due_of(unit)
        source.came_at = now
        if unit.klass == "work":
            self.hot[source.model] = source
            self.hot.move_to_end(source.model)
        if source.batch == event.pull:
            source.asked = max(0, source.asked - 1)
            return True
        if source.standing == event.pull:  # a pull of one: used up
            self._close(event.pull)
        return False

    def gave_back(self, unit: UnitHead) -> None:
        """This unit waits in its queue again, at the head."""
        source = self._all[unit.klass][unit.model]
        source.pending += 1
        source.due = min(source.due, due_of(unit))
