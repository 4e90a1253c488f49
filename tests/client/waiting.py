from __future__ import annotations

import time
from collections.abc import Callable


def until(condition: Callable[[], object], within_s: float = 30.0) -> None:
    """Wait for a condition; fail if it does not come true in time."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.005)
