"""What a worker knows of one unit that it holds."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from shoal.core.events import UnitHead
from shoal.core.models import ModelState

#: First wait for the ack of a reply; doubles each time. Round trips take under a millisecond.
RESEND_S = 1.0


class Held(msgspec.Struct):
    """One unit in this worker.

    Attributes:
        waiting_s: predicted seconds not yet sent to a lane.
        of: as `Prepared.of`; nothing: each item stands for itself.
        failed: of these.
    """

    head: UnitHead
    waiting_s: float
    prepared: bool = False
    started: bool = False
    undone: int = 0
    unstarted: int = 0
    strikes: int = 0
    of: Sequence[int | None] = ()
    failed: frozenset[int | None] = frozenset()
    replied: bool = False
    resend_s: float = RESEND_S
    unheard: bool = False  # the latest send; `unheard_since`: the first of those in a row
    unheard_since: float | None = None


def count_unprepared(model: ModelState, head: UnitHead, step: int) -> None:
    """One unit more or less that is not prepared."""
    if head.payload_bytes:
        model.fetching += step
    else:
        model.coming[head.klass] += step
