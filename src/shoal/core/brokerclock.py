"""The broker's clock seen from this machine: deadlines count from the broker's timestamp."""

from __future__ import annotations


class BrokerClock:
    """Estimates local monotonic time minus broker wall time from deliveries.

    A delivery is seen at least its latency after the broker stamped it, so the smallest
    difference seen is the offset plus the least latency; skew between the machines' clocks
    drops out. Only the last two periods count, so that drift drops out too.
    """

    PERIOD_S = 300.0

    def __init__(self) -> None:
        self._previous = float("inf")
        self._current = float("inf")
        self._period_end: float | None = None

    def seen(self, stamp: float, now: float) -> None:
        """A message stamped `stamp` by the broker arrived at local time `now`."""
        if self._period_end is None or now >= self._period_end:
            self._previous, self._current = self._current, float("inf")
            self._period_end = now + self.PERIOD_S
        self._current = min(self._current, now - stamp)

    def to_local(self, stamp: float) -> float:
        """Local time of a broker timestamp; call `seen` first."""
        return stamp + min(self._previous, self._current)
