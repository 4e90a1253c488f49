"""When a unit should have begun, and whose turn that makes it; the one order by which models compete.

A unit whose caller allows little time is due at its deadline. All others are due a while after
they were published: so the oldest goes first among those that have time, and nobody who has time
waits more than `PATIENCE_S` behind callers who have none.

Among models, one that fills a batch is somewhat ahead of its oldest unit: a visit costs the same
whatever it brings, so a full queue gains nothing by waiting, and the others get fuller meanwhile.
"""

from __future__ import annotations

from shoal.core.events import UnitHead

#: Deadlines are limits of patience, mostly of a minute, not goals. A second is far more than a
#: small model's answer should take, so an earlier deadline is a goal of its own.
PATIENCE_S = 1.0
#: Remaining time below which a unit goes before others of its priority on a shelf. One batch takes
#: some 3 to 250 ms: within these steps it is decided whether the answer comes in time.
STEPS_S = (0.1, 0.3, 1.0)
#: By how many times the seconds that wait for a model, up to a full batch, its turn comes earlier, at most.
#: More lets the rare models wait for longer than popular ones are served sooner. 50 models on 8
#: workers at 0.84 of capacity: 99th percentile 114 ms with 0, 105 with 2, 98 with 3, 101 with 4; at
#: half of it the median is 26 ms instead of 35. On 64 workers at 0.88: 102 ms with 0, 68 with 3 (`shoal sim`).
FULL = 3.0
#: The same for each model in use. Where a few models share a device their queues are visited often
#: anyway, and a lone request beside a flood for another model should not wait for more batches of that.
FULL_A_MODEL = 1 / 8
#: The most by which it comes earlier: batches of slow models must not outrun deadlines of a second.
MOST_AHEAD_S = PATIENCE_S / 4


def due_of(head: UnitHead) -> float:
    """Local time by which this unit should be under way; the earliest goes first."""
    return min(head.deadline, head.published + PATIENCE_S)


def rank_of(head: UnitHead, now: float) -> int:
    """Place of the unit among those of its tenant: priority first, then how little time is left."""
    left_s = head.deadline - now
    pressing = sum(left_s < step for step in STEPS_S)
    return head.priority * (len(STEPS_S) + 1) + pressing


def turn_of(due: float, waiting_s: float, batch_s: float, in_use: int) -> float:
    """When a model is to have its turn; the earliest goes first.

    `due`: of its first unit. `waiting_s`: predicted seconds of all that waits for it. `batch_s`: of
    a full batch. `in_use`: models that are asked for here.
    """
    ahead_s = min(FULL, FULL_A_MODEL * in_use) * min(waiting_s, batch_s)
    return due - min(ahead_s, MOST_AHEAD_S)
