"""What a process made while it started, and Python's search for cycles in it. Decides nothing."""

from __future__ import annotations

import gc


def keep_for_good() -> None:
    """Let the collector never look again at what is here now; call when the process has started.

    A full collection looks at every object: the hundred thousands that imports make would stop a
    gateway for tens of milliseconds, at full load several times a second.
    """
    gc.collect()
    gc.freeze()
