"""When the core is asked: at once for what an event brings, once a turn of the loop to decide.

Holds no decision; instructions are performed in the order in which the core gave them.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

from shoal.core import events as ev
from shoal.core.worker import WorkerCore


class Turns:
    """Feeds events to the core; `perform` is called with each instruction and the time."""

    def __init__(self, core: WorkerCore, perform: Callable[[ev.Instruction, float], None]) -> None:
        self._core = core
        self._perform = perform
        self._events: deque[ev.Event] = deque()
        self._performing = False
        self._deciding = False
        self._broken = False  # the core failed: what it knows may be wrong, so it is asked no more
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = float("inf")

    def emit(self, event: ev.Event) -> None:
        """Let the core react; it decides once all that comes in this turn of the loop was told."""
        if self._broken:
            return
        self._events.append(event)
        if not self._deciding:
            self._deciding = True
            asyncio.get_running_loop().call_soon(self._decide)
        if not self._performing:
            self._perform_all(decide=False)

    def _decide(self) -> None:
        self._deciding = False
        if not self._broken:
            self._perform_all(decide=True)
            self._set_timer()

    def _perform_all(self, *, decide: bool) -> None:
        """What the core decides, if it is to; events that came up or come up meanwhile follow in order."""
        self._performing = True
        try:
            now = time.monotonic()
            for instruction in self._core.decide(now) if decide else ():
                self._perform(instruction, now)
            while self._events:
                now = time.monotonic()
                for instruction in self._core.react(self._events.popleft(), now):
                    self._perform(instruction, now)
        except BaseException:
            self._broken = True
            raise
        finally:
            self._performing = False

    def _set_timer(self) -> None:
        now = time.monotonic()
        at = self._core.next_wake(now)
        if at is None or at >= self._timer_at:
            return  # a timer that rings early does no harm
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = at
        self._timer = asyncio.get_running_loop().call_later(max(0.0, at - now), self._ring)

    def _ring(self) -> None:
        self._timer, self._timer_at = None, float("inf")
        self._decide()
