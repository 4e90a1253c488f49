"""The cores that are ours, and which threads take one first: event loops, then what computes.

A gateway and a CPU runtime on one machine want the same cores. The loop answers in microseconds and
hundreds wait for it; a batch is long anyway, and loses little by waiting. Not for threads beside an event
loop: one that holds Python's lock and has no core would keep the loop waiting.
Linux may share cores among sessions first, and then priorities count only within one (sched(7), "The
autogroup feature"): so none of our processes starts a session of its own.
"""

from __future__ import annotations

import os
import sys
import threading

#: Added to the niceness that event loops have: a third of their weight.
YIELDS = 5
_MOST_NICE = 19  # setpriority(2)


def usable() -> int:
    """How many cores this process may run on, one at least."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def yield_cores() -> None:
    """Let the threads of event loops go before the calling one, and those that it starts.

    Linux alone has a priority for each thread; elsewhere nothing changes.
    """
    if sys.platform == "linux":
        thread = threading.get_native_id()
        nice = os.getpriority(os.PRIO_PROCESS, thread) + YIELDS
        os.setpriority(os.PRIO_PROCESS, thread, min(nice, _MOST_NICE))
