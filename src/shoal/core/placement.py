"""What to load on which lane: models that work waits for, hot ones once more, copies to be kept.

A model that nobody has is loaded at once where there is room; where others must go, once its
waiting outweighs each of them (`eviction.price_s`). One that all its copies cannot keep up with
spreads to one more lane at a time. Every change of a model's copies is made under its claim
(`moves`). Demand and peers are level-triggered: what a lost message said, the next one says again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import islice
from math import inf
from typing import Literal

import msgspec

from shoal.core.demand import Wanted
from shoal.core.eviction import PATIENCE_S
from shoal.core.lanes import Lane
from shoal.core.models import ModelState
from shoal.core.room import Room

Why = Literal["pinned", "demand", "hot", "replicas"]

#: A model is hot when this many times its load seconds, and at least a second, wait for each copy:
#: a new copy must still find work once it is there.
HOT_LOADS = 2.0
HOT_MIN_S = 1.0
#: ... for this long: a burst that its copies are through with by then needs no other copy.
HOT_FOR_S = 1.0
#: Bulk work has no latency goal: its age counts this much less than that of interactive work.
BULK_AGE = 0.1
#: Of several workers the emptiest claims first: a full one waits this long, one that must evict as
#: long again, one whose load of the model failed longer than all of these, as that may be its
#: machine's fault. A claim is answered within a millisecond or two.
YIELD_S = 0.05
#: A model whose move was called off (another has its claim, no room) is looked at again this late.
RETRY_S = 1.0
#: Wants that are looked at in one go, the heaviest: hundreds on eight lanes would take many
#: milliseconds of every pulse. The others get heavier until their turn comes.
MOST_LOOKS = 32


class Want(msgspec.Struct, frozen=True):
    """A model to be loaded once more: why, since when, and what that weighs.

    `weight_s`: its age and the seconds of work that wait, together; prices are compared with it.
    A pinned model that a lane lacks, since it had no room for it, outweighs all others.
    `lane_s`: seconds of work for each copy that there is.
    """

    model: ModelState
    why: Why
    since: float
    weight_s: float
    lane_s: float


class Placement:
    """Chooses models and lanes; `moves` carries a choice out.

    Args:
        settle_s: how long after its start a worker listens to others before it loads anything that
            is not pinned.
    """

    def __init__(self, room: Room, settle_s: float) -> None:
        self._lanes = room.lanes
        self._models = room.models
        self._room = room
        self._settle_s = settle_s
        self._settled_at: float | None = None
        self._kept = [
            model
            for name, model in room.models.items()
            if model.spec.min_replicas > 0 or name in room.pinned
        ]
        self._since: dict[tuple[str, Why], float] = {}
        self._retry_at: dict[str, float] = {}
        self._look_at: float | None = None

    def called_off(self, model: str, now: float) -> None:
        """Its move came to nothing; try again later."""
        self._retry_at[model] = now + RETRY_S

    def next_wake(self) -> float | None:
        """When a want has waited for long enough to be acted on, demand staying as it is."""
        return self._look_at

    def put_off(self) -> None:
        """Nothing can be begun now: there is no time to look again until something happens."""
        self._look_at = None

    # --- what is wanted ---------------------------------------------------------------------------

    def wants(self, now: float) -> list[Want]:
        """All models that are wanted on one more lane, the heaviest first."""
        asked = [self._models[n] for n in self._room.demand.models() if n in self._models]
        before, self._since = self._since, {}
        found = [
            want
            for model in dict.fromkeys([*asked, *self._kept])
            if (want := self._want(model, before, now)) is not None
        ]
        return sorted(found, key=lambda want: want.weight_s, reverse=True)

    def _want(
        self, model: ModelState, before: dict[tuple[str, Why], float], now: float
    ) -> Want | None:
        name = model.spec.name
        copies = self._room.copies(name)
        wanted = self._room.demand.models().get(name, Wanted())
        lane_s = wanted.seconds / max(1, copies)
        why: Why
        if model.state == "failed":
            return None
        if name in self._room.pinned:
            missing = not all(lane.wants(name) for lane in self._lanes.values())
            return Want(model, "pinned", now, inf, lane_s) if missing else None
        if copies == 0 and wanted.seconds > 0:
            why = "demand"
        elif copies < model.spec.min_replicas:
            why = "replicas"
        elif copies and lane_s > max(HOT_MIN_S, HOT_LOADS * model.footprint.load_s):
            why = "hot"
        else:
            return None
        since = self._since[name, why] = before.get((name, why), now)
        age_s = now - since
        pace = 1.0 if wanted.interactive_s > 0 or why != "demand" else BULK_AGE
        return Want(model, why, since, pace * age_s + wanted.seconds, lane_s)

    # --- where ------------------------------------------------------------------------------------

    def decide(
        self, wants: list[Want], now: float, moving: set[str], lanes: list[Lane]
    ) -> list[tuple[Lane, Want]]:
        """Moves to begin, at most one on each of `lanes`; no model that is `moving` takes part."""
        self._look_at = None
        if self._settled_at is None:
            self._settled_at = now + self._settle_s
        if now < self._settled_at:
            self._look(self._settled_at)
            return []
        begun: list[tuple[Lane, Want]] = []
        for want in islice(self._ready(wants, now, moving), MOST_LOOKS):
            lane = self._lane_for(want, lanes, now, moving)
            if lane is not None:
                lanes = [other for other in lanes if other is not lane]
                begun.append((lane, want))
        return begun

    def _ready(self, wants: list[Want], now: float, moving: set[str]) -> Iterator[Want]:
        """Wants of models that are not under way, and not called off a moment ago."""
        for want in wants:
            name = want.model.spec.name
            if name in moving:
                continue
            if self._retry_at.get(name, 0.0) > now:
                self._look(self._retry_at[name])
                continue
            yield want

    def _lane_for(self, want: Want, lanes: list[Lane], now: float, moving: set[str]) -> Lane | None:
        """The lane with room, else the one that may make it; of several the least loaded."""
        options = [
            (need > 0, self._backlog_s(lane), -lane.memory.free, lane.id)
            for lane in lanes
            if self._suits(want, lane)
            for need in [self.need(want.model, lane)]
            if not self._waits(want, lane, need, now)
            and (need <= 0 or self.victims(want, lane, now, moving) is not None)
        ]
        return self._lanes[min(options)[-1]] if options else None

    def _suits(self, want: Want, lane: Lane) -> bool:
        name = want.model.spec.name
        if lane.wants(name) or name in lane.evicting or self.too_large(want.model, lane):
            return False
        if want.why == "replicas":  # on another worker, if there is one
            return not (self._room.pool and any(o.wants(name) for o in self._lanes.values()))
        return want.why != "hot" or self._backlog_s(lane) < want.lane_s / 2

    def _waits(self, want: Want, lane: Lane, need: int, now: float) -> bool:
        """Whether it is early: for a hot model, or since emptier workers are to claim it first."""
        wait_s = HOT_FOR_S if want.why == "hot" else 0.0
        if self._room.pool:
            budget = lane.memory.budget
            wait_s += YIELD_S * (lane.memory.used / budget if budget else 0.0)
            wait_s += YIELD_S if need > 0 else 0.0
            wait_s += 2 * YIELD_S if want.model.failures else 0.0
        if now < want.since + wait_s:
            self._look(want.since + wait_s)
            return True
        return False

    def _backlog_s(self, lane: Lane) -> float:
        """Seconds of work that all gateways have for this lane, shared with other copies."""
        seconds = self._room.demand.seconds
        return sum(
            seconds(name) / max(1, self._room.copies(name)) for name in sorted(lane.resident)
        )

    def need(self, model: ModelState, lane: Lane) -> int:
        """Bytes that must come free before it can be loaded there.

        What is added to a mere guess of its size takes no more than there is.
        """
        needs = min(lane.memory.needs(model.footprint), self.most(lane))
        needs = max(needs, model.footprint.bytes)
        return max(needs - lane.memory.free, lane.memory.excess(model.spec.name))

    def victims(self, want: Want, lane: Lane, now: float, but: set[str]) -> list[str] | None:
        """Who would make room for it, if that is worth it now."""
        most_s = want.weight_s if want.why in ("demand", "pinned") else 0.0
        need = self.need(want.model, lane)
        return self._room.pick(lane, need, want.model.footprint.load_s, most_s, now, but)

    def most(self, lane: Lane, *, ever: bool = False) -> int:
        """The largest model that the lane could hold beside what may not go now, or `ever`."""
        budget = lane.memory.budget
        return sys.maxsize if budget is None else budget - self.staying(lane, ever=ever)

    def staying(self, lane: Lane, *, ever: bool = False) -> int:
        """Bytes of what is pinned, and of copies that cards ask for (these not for `ever`)."""
        copies, pinned, spare = lane.memory.copies, self._room.pinned, self._room.spare
        kept = [name for model in self._kept if (name := model.spec.name) in copies]
        return sum(
            copies[name].bytes for name in kept if name in pinned or not (ever or spare(name))
        )

    def too_large(self, model: ModelState, lane: Lane) -> bool:
        return model.footprint.bytes > self.most(lane)

    def misfits(self, wants: list[Want], now: float) -> list[Want]:
        """What no lane can ever hold, or none could for long, as copies that cards ask for stay."""
        ever, at_present = (
            max(self.most(lane, ever=ever) for lane in self._lanes.values())
            for ever in (True, False)
        )
        return [
            want
            for want in wants
            for size in [want.model.footprint.bytes]
            if size > ever or (size > at_present and now >= want.since + PATIENCE_S)
        ]

    def _look(self, at: float) -> None:
        self._look_at = at if self._look_at is None else min(self._look_at, at)
