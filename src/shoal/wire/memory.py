"""Memory to receive into. Decides nothing."""

from __future__ import annotations

import numpy as np


def unwritten(count: int) -> memoryview:
    """So many writable bytes, of any content; only what is written of them takes memory and time.

    A `bytearray` is zeroed: for 64 MB that is 30 ms, and 64 MB for whoever only says they will come.
    """
    return np.empty(count, np.uint8).data
