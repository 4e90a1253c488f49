"""What a runtime process asks of its operating system."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def die_with_parent() -> None:
    """Have Linux kill this process when the thread that started it ends; elsewhere do nothing.

    It covers the case that the closed socket cannot: a worker that dies while this process is
    deep in a call that never looks at the socket.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def give_up(reason: str) -> None:
    """End this process now, whatever it does, since it can compute nothing any more.

    The worker shows the reason, and runs what was under way in a new one.
    """
    print(reason, file=sys.stderr, flush=True)
    sys.stdout.flush()
    os._exit(1)


def trim() -> None:
    """Return pages that malloc keeps of what was freed."""
    with contextlib.suppress(OSError, AttributeError):  # glibc only
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def rss_bytes() -> int:
    """Resident set of this process now; where there is no ``/proc``, its peak."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # bytes there, kilobytes elsewhere
