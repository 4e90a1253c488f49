"""One device of a worker as the core sees it: runtime processes, resident models, batches under way."""

from __future__ import annotations

from collections import deque
from typing import Literal

import msgspec

from shoal.core.events import Item
from shoal.core.memory import LaneMemory
from shoal.core.patience import Patience

#: A runtime that lived this long had a good start: its next death is restarted at once.
STABLE_S = 60.0
RESTART_MAX_S = 15.0
#: A batch that takes this long, and so many times what was predicted, will never come back.
HANG_S = 60.0
HANG_FACTOR = 20.0
#: How often a busy lane is looked at for that. Longer gaps count as this much: a worker that was
#: stopped itself must not take its runtimes for hung.
LOOK_S = 1.0
#: A runtime that cannot load beside its batches holds them up for as long; reading and placing even a
#: large model from a slow disk takes no longer than this.
LOADING_S = 600.0


class Batch(msgspec.Struct):
    """A batch that was sent to a runtime and has not come back."""

    id: int
    model: str
    kind: str
    items: list[Item]
    predicted_s: float
    generates: bool = False  # a sequence, not what a model that generates computes besides
    alone: bool = False  # nothing else of its runtime runs beside it
    ending: bool = False  # the runtime was told to end it
    silent_s: float = 0.0  # of a sequence, predicted until its first token: its prompt is read


class Runtime(msgspec.Struct):
    """One runtime process of a lane.

    Attributes:
        died_at: since when nothing is computed; None again from the first batch on.
        state: resting: its batches finish and no more are sent, since it is to be stopped.
        rss_bytes: resident set of the process when it was last asked.
        base_bytes: what that was above the bytes of its models when it was first asked.
        on_device: what its models hold is no part of it.
        over: how often in a row it was too much.
        repaid_at: until then, those that waited for its restart go before those suspected of it.
    """

    state: Literal["down", "starting", "up", "resting", "stopping"] = "down"
    started_at: float = 0.0
    quick_deaths: int = 0
    restart_at: float | None = None
    died_at: float | None = None
    repaid_at: float = 0.0
    rss_bytes: int = 0
    base_bytes: int | None = None
    on_device: bool = False
    over: int = 0
    recycled_at: float | None = None

    def died(self, now: float, *, computing: bool) -> None:
        """Decide when to start it again: at once, or later the more often it died young.

        A death while `computing` is the batch's fault and judged by strikes: waiting would only
        punish everybody else's work.
        """
        lived = now - self.started_at if self.state in ("up", "resting") else 0.0
        if not computing:
            self.quick_deaths = 0 if lived > STABLE_S else self.quick_deaths + 1
        self.state = "down"
        late = not computing and self.quick_deaths > 1
        delay = 0.25 * 2.0 ** (self.quick_deaths - 1) if late else 0.0
        self.restart_at = now + min(RESTART_MAX_S, delay)
        if self.died_at is None:
            self.died_at = now

    def stopped(self, now: float) -> None:
        """It ended as it was told to; it is started again when something is to be loaded."""
        self.state, self.restart_at = "down", now

    def computes(self, now: float) -> None:
        """A batch is sent to it. What it was down for is first made good to the others."""
        if self.died_at is not None:
            self.repaid_at, self.died_at = now + (now - self.died_at), None

    def may_take_suspects(self, now: float) -> bool:
        return self.died_at is None and now >= self.repaid_at


class Lane:
    """One device: what is resident, what runs, when it will be free."""

    def __init__(self, id_: str, budget_bytes: int | None = None) -> None:
        self.id = id_
        self.memory = LaneMemory(budget_bytes)
        self.patience = Patience()
        self.runtimes: dict[str, Runtime] = {}
        self.resident: set[str] = set()
        self.leaving: set[str] = set()  # resident, but nothing more is pulled for it here
        self.evicting: set[str] = set()  # the runtime was told to let go of it
        self.starved = False  # a batch was out of memory: none is sent before those are gone
        self.loading: str | None = None
        self.to_load: deque[str] = deque()
        self.batches: deque[Batch] = deque()
        self.seats: dict[int, Batch] = {}  # sequences, which run beside the batches
        self.free_at = 0.0
        self._first_s = 0.0  # how long the first batch was seen to run, as far as that counts
        self._looked_at = 0.0
        self._silent_s: dict[
            str, float
        ] = {}  # kind -> since when nothing is heard of its sequences

    def wants(self, model: str) -> bool:
        """Whether the model is resident here or on its way."""
        return model in self.resident or model == self.loading or model in self.to_load

    def serves(self, model: str) -> bool:
        """Whether units are pulled for this model here."""
        return model in self.resident and model not in self.leaving

    def computing(self, kind: str) -> bool:
        """Whether a runtime of this kind has a batch, or a sequence."""
        return any(batch.kind == kind for batch in (*self.batches, *self.seats.values()))

    def alone(self, kind: str) -> bool:
        """Whether a sequence runs there beside which nothing may."""
        return any(batch.alone and batch.kind == kind for batch in self.seats.values())

    def uses(self, model: str) -> bool:
        """Whether a batch or a sequence of this model is under way."""
        return any(batch.model == model for batch in (*self.batches, *self.seats.values()))

    def can_take(self, now: float, margin_s: float) -> bool:
        """Idle, or so close to idle that the next batch must be ready now."""
        if self.starved:
            return False
        if not self.batches:
            return True
        return len(self.batches) == 1 and now >= self.free_at - margin_s

    def free_in(self, now: float) -> float:
        """Predicted seconds until everything that was sent here is done."""
        return max(0.0, self.free_at - now) if self.batches else 0.0

    def next_wake(self, now: float, margins_s: tuple[float, ...]) -> float | None:
        """When the lane is next so close to being free that something is due."""
        if not self.batches and not self.seats:
            return None
        look = now + LOOK_S
        if len(self.batches) != 1:
            return look
        return min((t for m in margins_s if (t := self.free_at - m) > now), default=look)

    def hung(self, now: float) -> str | None:
        """The kind of the runtime whose batch will not come back; call often."""
        seen_s = min(now - self._looked_at, LOOK_S)
        self._looked_at = now
        least_s = HANG_S if self.loading is None else LOADING_S
        for kind in {batch.kind for batch in self.seats.values()}:
            counts_s = self.patience.counts(kind, seen_s, now)
            self._silent_s[kind] = self._silent_s.get(kind, 0.0) + counts_s
            reading_s = max(b.silent_s for b in self.seats.values() if b.kind == kind)
            if self._silent_s[kind] > max(least_s, HANG_FACTOR * reading_s):
                self.progressed(kind)
                return kind
        if not self.batches:
            self._first_s = 0.0
            return None
        first = self.batches[0]
        self._first_s += self.patience.counts(first.kind, seen_s, now)
        if self._first_s <= max(least_s, HANG_FACTOR * first.predicted_s):
            return None
        self._first_s = 0.0
        return first.kind

    def silent(self, now: float) -> list[str]:
        """The kinds of the runtimes of which so little is heard that their processor time is wanted."""
        silent_s = dict(self._silent_s)
        if self.batches:
            first = self.batches[0].kind
            silent_s[first] = max(self._first_s, silent_s.get(first, 0.0))
        return [kind for kind, s in silent_s.items() if self.patience.asks(kind, s, now)]

    def progressed(self, kind: str) -> None:
        """Something was heard of the sequences of this runtime."""
        self._silent_s.pop(kind, None)

    def seated(self, sequence: Batch, now: float) -> None:
        """It is generated from now on."""
        if not any(batch.kind == sequence.kind for batch in self.seats.values()):
            self.progressed(sequence.kind)
        self.seats[sequence.id] = sequence
        self.memory.used_by(sequence.model, 1, now)

    def started(self, batch: Batch, now: float) -> None:
        self.batches.append(batch)
        self.memory.used_by(batch.model, len({item.unit for item in batch.items}), now)
        self.free_at = max(now, self.free_at if len(self.batches) > 1 else now) + batch.predicted_s

    def finished(self, batch_id: int, now: float) -> Batch | None:
        """Take the batch, or the sequence, out; the batch behind it starts now."""
        if batch_id in self.seats:
            self.progressed(self.seats[batch_id].kind)
            return self.seats.pop(batch_id)
        for batch in self.batches:
            if batch.id == batch_id:
                self.batches.remove(batch)
                self._first_s = 0.0
                self.free_at = now + sum(b.predicted_s for b in self.batches)
                return batch
        return None
