"""Children that do not outlive their parent, even one that was killed."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1


def dying_with_us(number: signal.Signals) -> Callable[[], None] | None:
    """A child's `preexec_fn`: `number` ends the child when we are killed (Linux only)."""
    if sys.platform != "linux":
        return None
    # All is looked up here: between fork and exec the child must not import or allocate much.
    prctl, parent, getppid = ctypes.CDLL(None).prctl, os.getpid(), os.getppid

    def prepare() -> None:
        prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
        if getppid() != parent:  # we died between fork and prctl
            os._exit(1)

    return prepare
