"""When a unit should have begun, and how pressing that is; the one order by which models compete.

A unit whose caller allows little time is due at its deadline. All others are due a while after
they were published: so the oldest goes first among those that have time, and nobody who has time
waits more than `PATIENCE_S` behind callers who have none.
"""

from __future__ import annotations

from shoal.core.events import UnitHead

#: Deadlines are limits of patience, mostly of a minute, not goals. A second is far more than a
#: small model's answer should take, so an earlier deadline is a goal of its own.
PATIENCE_S = 1.0
#: Remaining time below which a unit goes before others of its priority on a shelf. One batch takes
#: some 3 to 250 ms: within these steps it is decided whether the answer comes in time.
STEPS_S = (0.1, 0.3, 1.0)


def due_of(head: UnitHead) -> float:
    """Local time by which this unit should be under way; the earliest goes first."""
    return min(head.deadline, head.published + PATIENCE_S)


def rank_of(head: UnitHead, now: float) -> int:
    """Place of the unit among those of its tenant: priority first, then how little time is left."""
    left_s = head.deadline - now
    pressing = sum(left_s < step for step in STEPS_S)
    return head.priority * (len(STEPS_S) + 1) + pressing
