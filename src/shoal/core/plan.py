"""How the next batches of the lanes that are about to be free are covered, and what is pulled for them.

A lane's credit is one batch. What is on the shelf, being prepared or on its way counts against it;
for what is lacking one source is chosen. Interactive work covers a lane before bulk does.

Where many lanes share few models, a lane does not take all that waits: the next lane is free in a
moment and would find nothing, and batches would be now large, now tiny, which is what the slowest
requests feel. It asks for somewhat more than its batches lately were, or for its share of what is
known to wait if that is more: one of as many shares as there are lanes for each model in use, since the
others have other queues to take from. With many models a queue is visited seldom, and nearly a full batch
of it is taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from shoal.core.batcher import BULK_SHARE
from shoal.core.delivery import Units
from shoal.core.lanes import Lane
from shoal.core.models import ModelState
from shoal.core.sources import IN_USE_S, NEVER, Source, Sources
from shoal.core.urgency import turn_of
from shoal.values import TrafficClass

#: What was told of a queue counts for this long: a request takes about that.
STALE_S = 0.002
#: A head that is only guessed to be there counts as this much younger: asking in vain costs half a
#: millisecond, and where work waits longer than this, queues are known to be full anyway.
GUESS_S = 0.01
#: Of a queue that other groups come before with (`core.groups`), the head counts as this much younger for each
#: doubling of their number: they are there first, unless they have too much to do.
AWAY_S = 0.01
#: What was told of such a queue counts for this long; those at home tell each other, and not this group.
AWAY_TOLD_S = 0.03
#: After it the head counts as this much younger for each group before: somebody looks after it even if they are gone.
AWAY_GUESS_S = 0.1
#: Lanes for each model in use from which on they share what waits. With fewer, the next one comes late:
#: 8 lanes gain with 4 models and lose half of their knee with 50.
LANES_A_MODEL = 2
#: A lane asks for so many times what its batches lately were. One model on 8 lanes, at half and at 0.8
#: of capacity: the 99th percentile is 1.0 times round robin's; it was 1.3 and 1.5 when each lane took
#: all (`shoal sim`). At full load nothing changes, as all batches are full.
GROWTH = 1.5
#: A batch that is so full is not asked for more: a pull costs some 80 µs wherever it ends.
ENOUGH = 0.9
#: Part of a full batch that is asked for where many models take turns: lengths vary, and what does not
#: fit comes back for a visit of its own that fills half a batch.
FILL = 0.9
#: What a delivery told of the units behind it says how much waits for about a batch.
TOLD_S = 0.02
#: Units whose payloads are being fetched, for one model; beyond it other machines may have them.
MAX_FETCHING = 16


class Plan:
    """One look at all lanes that may take work."""

    def __init__(
        self,
        models: dict[str, ModelState],
        units: Units,
        sources: Sources,
        lanes: Callable[[str], int],
        away: Callable[[str], int],
        now: float,
    ) -> None:
        self._models = models
        self._sources = sources
        self._lanes = lanes
        self._away = away
        self._now = now
        self._wanted: dict[Source, float] = {}
        self._units = units
        # What is here or on its way: looked at, and the rest.
        self._left: dict[TrafficClass, list[tuple[str, float]]] = {"work": [], "bulk": []}
        self._more = {klass: self._supply(klass) for klass in self._left}

    def fill(self, lane: Lane) -> bool:
        """Cover this lane's next batch; False if no interactive work is known for it."""
        first, share = self._cover(lane, "work", 1.0)
        if share >= ENOUGH:
            return True
        source = self._next(lane, "work", first)
        if source is not None:
            part = self._part(source) - share
            if part > 0 or first is None:
                self._want(source, part)
            return True
        room = BULK_SHARE - share
        if room > 0 and self._sources.unwatched["bulk"]:
            _, share = self._cover(lane, "bulk", room)
            source = self._next(lane, "bulk", first)
            if share < room and source is not None:
                self._want(source, room - share)
        return first is not None

    def _part(self, source: Source) -> float:
        """How much of a full batch a lane takes of what may wait there."""
        lanes = self._lanes(source.model)
        in_use = self._sources.in_use(self._now)
        if in_use * LANES_A_MODEL > lanes:
            return FILL if in_use > 1 else 1.0
        model = self._models[source.model]
        if not model.ran_s or self._now - model.served_at > IN_USE_S:
            return 1.0  # its batches are not known; a large pool would grow them from one unit
        told = source.pending if self._now - source.told_at <= TOLD_S else 0
        told_s = told * model.unit_s * max(1, in_use) / lanes
        seconds = max(GROWTH * model.ran_s, told_s)
        return min(1.0, seconds / model.batch_s)

    def _cover(self, lane: Lane, klass: TrafficClass, most: float) -> tuple[str | None, float]:
        """Use up to `most` batches of what is here for this lane; the first model and how much."""
        first, share = None, 0.0
        kept: list[tuple[str, float]] = []
        left = iter(self._left[klass])
        for name, there in chain(left, self._more[klass]):
            part = min(most - share, there) if lane.serves(name) else 0.0
            if part > 0:
                share += part
                first = first or name
            if there > part:
                kept.append((name, there - part))
            if share >= most:
                break
        self._left[klass] = [*kept, *left]
        return first, share

    def _supply(self, klass: TrafficClass) -> Iterator[tuple[str, float]]:
        """Batches of each model that are here or on their way."""
        asking = {s.model: s for s in self._sources.asking.values() if s.klass == klass}
        for name in asking:
            model = self._models[name]
            if model.spec.sequences:
                continue
            seconds = asking[name].asked * model.unit_s + model.waiting[klass]
            yield name, seconds / model.batch_s
        for name in self._units.models():
            model = self._models[name]
            batched = not model.spec.sequences
            if batched and name not in asking and model.waiting[klass] > 0:
                yield name, model.waiting[klass] / model.batch_s

    def _next(self, lane: Lane, klass: TrafficClass, model: str | None) -> Source | None:
        """The source whose turn comes first; of `model`, if a batch of that is to be filled up."""
        unwatched = self._sources.unwatched[klass]
        candidates: Iterable[Source] = unwatched.values()
        if model is not None:
            candidates = [unwatched[model]] if model in unwatched else []
        # An idle lane need not guess: a standing pull tells, and brings what there is.
        guess_before = self._now - STALE_S if lane.batches else NEVER
        best, first = None, math.inf
        for source in candidates:
            if source.pending or source.told_at < guess_before:
                turn = self._turn(source)
                if turn < first and lane.serves(source.model):
                    best, first = source, turn
        return best

    def _turn(self, source: Source) -> float:
        """When its turn comes; never if nothing more can wait there, or is to be asked for."""
        model = self._models[source.model]
        all_wanted = source in self._wanted and source.pending <= self._count(source)
        if model.spec.sequences:
            return math.inf  # `core.seats` are filled by themselves
        if all_wanted or model.fetching >= MAX_FETCHING:
            return math.inf
        waiting_s = model.waiting[source.klass] + source.expected(self._now) * model.unit_s
        in_use = self._sources.in_use(self._now)
        turn = turn_of(source.due, waiting_s, model.batch_s, in_use)
        return turn + self._behind_s(source)

    def _behind_s(self, source: Source) -> float:
        """By how much it counts as younger: where it is only guessed that something waits, and away from home."""
        guess_s = 0.0 if source.pending else GUESS_S
        away = self._away(source.model)
        if not away:
            return guess_s
        if source.pending and self._now - source.told_at <= AWAY_TOLD_S:
            return AWAY_S * math.log2(1 + away)
        return guess_s + AWAY_GUESS_S * away

    def _want(self, source: Source, share: float) -> None:
        self._wanted[source] = self._wanted.get(source, 0.0) + share

    def _count(self, source: Source) -> int:
        model = self._models[source.model]
        seconds = self._wanted[source] * model.batch_s
        return max(1, int(seconds / model.unit_s + 1e-6))

    def pulls(self) -> list[tuple[Source, int]]:
        """What to ask for: how many units of which source; only what was told just now bounds it."""
        counts = {source: self._count(source) for source in self._wanted}
        for source, count in counts.items():
            if source.pending and self._now - source.told_at <= STALE_S:
                counts[source] = min(count, source.pending)
        return list(counts.items())
