"""What a worker asks the queue for, and when.

An idle lane keeps a standing pull of one for each resident model. A busy worker pulls one whole
batch, just before a lane is free, and never holds more than its credit: pulled work is work that
no other machine can take. Which model next: the one that waits and was asked for longest ago.
"""

from __future__ import annotations

from collections.abc import Iterable

from shoal.core.events import Instruction, Pull, PullEnded, Withdraw
from shoal.core.lanes import Lane
from shoal.core.models import ModelState

#: Most units of one pull: bounds what a wrong prediction can pull in.
MAX_PULL = 512
#: Units whose payloads are being fetched, for one model; beyond it other machines may have them.
MAX_FETCHING = 16
#: A broker that refused a pull is asked again this much later, not in a hot loop.
REFUSED_S = 0.1


#: What a delivery said of the units behind it counts for this long: a request takes about that.
STALE_S = 0.002


class Pulls:
    """Open pull requests and the choice of the next ones."""

    def __init__(self) -> None:
        self._next = 1
        self._open: dict[int, ModelState] = {}
        self._refused_until = 0.0

    def ended(self, event: PullEnded, now: float) -> None:
        """The broker ended this pull."""
        model = self._close(event.pull)
        if model is not None and event.found_all:
            model.pending, model.pending_at = 0, now
        if model is not None and event.refused:
            self._refused_until = now + REFUSED_S

    def _close(self, pull: int) -> ModelState | None:
        model = self._open.pop(pull, None)
        if model is None:
            return None
        if model.standing_pull == pull:
            model.standing_pull = None
        if model.batch_pull == pull:
            model.batch_pull = None
        return model

    def lost(self) -> None:
        """The connection is gone and every pull with it."""
        for pull in list(self._open):
            self._close(pull)

    def arrived(self, model: ModelState, pull: int, pending: int, now: float) -> None:
        """A unit of this model came; a standing pull of one is used up by it."""
        model.pending, model.pending_at = pending, now
        if model.standing_pull == pull:
            self._open.pop(pull, None)
            model.standing_pull = None

    def decide(
        self, models: Iterable[ModelState], lanes: list[Lane], now: float, margin_s: float
    ) -> list[Instruction]:
        """Pull what the lanes will start soon; withdraw what they will not."""
        if now < self._refused_until:
            return []
        taking = {lane.id for lane in lanes if lane.can_take(now, margin_s)}
        idle = {lane.id for lane in lanes if not lane.batches}
        out: list[Instruction] = []
        for model in sorted(models, key=lambda m: m.pulled_at):
            hosts = [lane for lane in lanes if lane.serves(model.spec.name)]
            free = sum(lane.id in taking for lane in hosts)
            if not free or model.fetching >= MAX_FETCHING:
                out += self.withdraw(model)
                continue
            room_s = model.budget.seconds * free - model.waiting_s
            if model.batch_pull is None and room_s > 0:
                busy = not any(lane.id in idle for lane in hosts)
                out += self._pull(model, room_s, now, busy=busy)
        return out

    def next_wake(self, now: float) -> float | None:
        """When a broker that refused is to be asked again."""
        return self._refused_until if self._refused_until > now else None

    def withdraw(self, model: ModelState) -> list[Instruction]:
        """Take back the standing pull: no lane would start what it brings."""
        if model.standing_pull is None:
            return []
        pull, model.standing_pull = model.standing_pull, None
        self._open.pop(pull, None)
        return [Withdraw(pull)]

    def _pull(
        self, model: ModelState, room_s: float, now: float, *, busy: bool
    ) -> list[Instruction]:
        """A batch, if units wait or may wait; while the lanes are busy nobody told us of new ones."""
        unknown = busy and model.standing_pull is None and now - model.pending_at > STALE_S
        if model.pending > 0 or unknown:
            room = max(1, int(room_s / model.unit_s))
            count = min(MAX_PULL, room if unknown else min(room, model.pending))
            model.pulled_at = now
            model.batch_pull = self._new(model)
            return [Pull(model.batch_pull, model.spec.name, count, standing=False)]
        if model.standing_pull is None and model.waiting_s <= 0:
            model.standing_pull = self._new(model)
            return [Pull(model.standing_pull, model.spec.name, 1, standing=True)]
        return []

    def _new(self, model: ModelState) -> int:
        pull = self._next
        self._next += 1
        self._open[pull] = model
        return pull
