"""One time to come for each of many keys: the earliest is found without looking at the others."""

from __future__ import annotations

import heapq

#: Outdated entries are swept out once there are more of them than of the others, and these.
SPARE = 64


class Timers:
    """Times by key; setting one anew replaces it."""

    def __init__(self) -> None:
        self._at: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []

    def set(self, key: str, at: float) -> None:
        self._at[key] = at
        if len(self._heap) > 2 * len(self._at) + SPARE:
            self._heap = [(at, key) for key, at in self._at.items()]
            heapq.heapify(self._heap)
        else:
            heapq.heappush(self._heap, (at, key))

    def drop(self, key: str) -> None:
        self._at.pop(key, None)

    def first(self) -> float | None:
        """The earliest time; None if there is none."""
        heap = self._heap
        while heap and self._at.get(heap[0][1]) != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def due(self, now: float) -> list[str]:
        """Keys whose time has come, the earliest first; they have none from now on."""
        keys = []
        while (at := self.first()) is not None and at <= now:
            key = heapq.heappop(self._heap)[1]
            del self._at[key]
            keys.append(key)
        return keys
