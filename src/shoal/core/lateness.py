"""What a caller is told whose request is late: what most likely held it up. Decides nothing else."""

from __future__ import annotations

from shoal.core.admission_events import Rate
from shoal.core.backlog import Held


def why_late(request: Held, rate: Rate) -> str:
    """What most likely held it up, and what to do about it."""
    if request.untaken:
        return (
            f"the broker was away or did not take {len(request.untaken)} of them; "
            f"if that goes on, look at its log and its disk"
        )
    if rate.lanes == 0:
        return (
            f"no worker has '{request.model}' loaded; if one is starting or loading it, "
            f"allow more time with X-Request-Timeout"
        )
    if not request.waiting:
        return (
            "all of them are on the queue or with workers; allow more time with X-Request-Timeout"
        )
    return (
        f"{request.waiting} of them not yet on the queue; allow more time with X-Request-Timeout, "
        f"or send less at once"
    )
