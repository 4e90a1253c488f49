"""What workers' logs say of models: when each was resident, what was loaded, evicted and refused.

Pure: lines in, a `History` out. Copies on several workers are counted together.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterable, Iterator

import msgspec

_CHANGE = {"loaded": 1, "evicting": -1}


class Event(msgspec.Struct, frozen=True):
    """One line of a log; those of other events lack most fields."""

    time: float
    event: str
    model: str = ""
    lane: str = ""
    error: str = ""
    why: str = ""
    s: float = 0.0  # how long it took
    mb: float = 0.0  # what is held


class History:
    """Copies of each model over time."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.events = list(events)
        self._times: defaultdict[str, list[float]] = defaultdict(list)
        self._copies: defaultdict[str, list[int]] = defaultdict(list)
        for event in self.events:
            if event.event in _CHANGE:
                copies = self._copies[event.model]
                copies.append((copies[-1] if copies else 0) + _CHANGE[event.event])
                self._times[event.model].append(event.time)

    def copies(self, model: str, at: float) -> int:
        """How many workers held it then."""
        changes = bisect.bisect_right(self._times[model], at)
        return self._copies[model][changes - 1] if changes else 0

    def resident(self, at: float) -> tuple[int, int]:
        """Models that were resident anywhere then, and their copies."""
        copies = [self.copies(model, at) for model in self._times]
        return sum(count > 0 for count in copies), sum(copies)

    def count(self, event: str, model: str | None = None, since: float = 0.0) -> int:
        """How often this was logged, of this model if one is named."""
        return sum(
            e.event == event and e.time >= since and (model is None or e.model == model)
            for e in self.events
        )

    def out_of_memory(self) -> int:
        """Loads and items that a device had no memory for."""
        return sum(
            e.event in ("load_failed", "item_failed") and "memory" in e.error for e in self.events
        )


def read(log: str) -> Iterator[Event]:
    """The events in a JSON log; lines that are none, such as a banner, are passed over."""
    for line in log.splitlines():
        try:
            yield msgspec.json.decode(line, type=Event)
        except (msgspec.ValidationError, msgspec.DecodeError):
            continue
