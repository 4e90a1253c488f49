"""One device of a worker as the core sees it: runtime processes, resident models, batches under way."""

from __future__ import annotations

from collections import deque
from typing import Literal

import msgspec

from shoal.core.events import Item

#: A runtime that lived this long had a good start: its next death is restarted at once.
STABLE_S = 60.0
RESTART_MAX_S = 15.0


class Batch(msgspec.Struct):
    """A batch that was sent to a runtime and has not come back."""

    id: int
    model: str
    kind: str
    items: list[Item]
    predicted_s: float


class Runtime(msgspec.Struct):
    """One runtime process of a lane."""

    state: Literal["down", "starting", "up"] = "down"
    started_at: float = 0.0
    quick_deaths: int = 0
    restart_at: float | None = None

    def died(self, now: float) -> None:
        """Decide when to start it again: at once, or later the more often it died young."""
        lived = now - self.started_at if self.state == "up" else 0.0
        self.quick_deaths = 0 if lived > STABLE_S else self.quick_deaths + 1
        self.state = "down"
        delay = 0.0 if self.quick_deaths <= 1 else 0.25 * 2.0 ** (self.quick_deaths - 1)
        self.restart_at = now + min(RESTART_MAX_S, delay)


class Lane:
    """One device: what is resident, what runs, when it will be free."""

    def __init__(self, id_: str) -> None:
        self.id = id_
        self.runtimes: dict[str, Runtime] = {}
        self.resident: set[str] = set()
        self.loading: str | None = None
        self.to_load: deque[str] = deque()
        self.batches: deque[Batch] = deque()
        self.free_at = 0.0

    def wants(self, model: str) -> bool:
        """Whether the model is resident here or on its way."""
        return model in self.resident or model == self.loading or model in self.to_load

    def can_take(self, now: float, margin_s: float) -> bool:
        """Idle, or so close to idle that the next batch must be ready now."""
        if not self.batches:
            return True
        return len(self.batches) == 1 and now >= self.free_at - margin_s

    def next_wake(self, now: float, margins_s: tuple[float, ...]) -> float | None:
        """When the lane is next so close to being free that something is due."""
        if len(self.batches) != 1:
            return None
        return min((t for m in margins_s if (t := self.free_at - m) > now), default=None)

    def started(self, batch: Batch, now: float) -> None:
        self.batches.append(batch)
        self.free_at = max(now, self.free_at if len(self.batches) > 1 else now) + batch.predicted_s

    def finished(self, batch_id: int, now: float) -> Batch | None:
        """Take the batch out; the one behind it starts now."""
        for batch in self.batches:
            if batch.id == batch_id:
                self.batches.remove(batch)
                self.free_at = now + sum(b.predicted_s for b in self.batches)
                return batch
        return None
