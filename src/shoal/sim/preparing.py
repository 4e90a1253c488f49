"""The thread that decodes and tokenizes, in virtual time.

As in `worker.preparing`, whatever waits when the thread gets to it is done in one go and reported
together.
"""

from __future__ import annotations

from collections.abc import Callable

from shoal.core import events as ev
from shoal.sim.clock import Clock
from shoal.sim.scenario import Latency
from shoal.sim.unit import Unit

#: Most units of one report.
MOST = 64


class Preparing:
    """The preparing thread of one worker."""

    def __init__(self, clock: Clock, latency: Latency, emit: Callable[[ev.Event], None]) -> None:
        self._clock = clock
        self._latency = latency
        self._emit = emit
        self._waiting: list[Unit] = []
        self._busy = False

    def submit(self, unit: Unit) -> None:
        """Prepare this unit as soon as the thread is free."""
        self._waiting.append(unit)
        if not self._busy:
            self._begin()

    def _begin(self) -> None:
        group, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
        latency = self._latency
        seconds = sum(
            latency.prepare_item_s * len(unit.lengths) + latency.prepare_token_s * sum(unit.lengths)
            for unit in group
        )
        self._busy = True
        self._clock.after(seconds, self._done, group)

    def _done(self, group: list[Unit]) -> None:
        self._busy = False
        if self._waiting:
            self._begin()
        self._emit(ev.Prepared([(unit.id, unit.lengths) for unit in group]))
