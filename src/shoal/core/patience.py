"""How much of the time in which nothing is heard of a runtime process counts against it.

A process whose own processor time goes on is at work, however little of the machine it is given: of that time a
tenth counts, so that an endless loop is ended too, later. All of it counts where that time stands still, as of one
that waits for a device, and where nobody can read it. Reading it is the shell's.
"""

from __future__ import annotations

#: After so many seconds that count its processor time is asked for, and so often from then on.
ASK_AFTER_S = 20.0
ASK_EVERY_S = 5.0
#: Of one core, what shows that it computes: threads that wait, and look now and then, use less. One of
#: fifty processes on two cores is given four times as much.
LEAST_SHARE = 0.01
#: What counts of a second in which it does: the longest is nearly ten times the usual limit.
WORKING_COUNTS = 0.1


class Patience:
    """With the processes of one lane, by their kinds."""

    def __init__(self) -> None:
        self._asked_at: dict[str, float] = {}
        self._read: dict[str, tuple[float, float]] = {}  # processor seconds, and when
        self._working_until: dict[str, float] = {}

    def counts(self, kind: str, seconds: float, now: float) -> float:
        """What counts of so many seconds up to now."""
        working = now <= self._working_until.get(kind, now - 1.0)
        return seconds * WORKING_COUNTS if working else seconds

    def asks(self, kind: str, silent_s: float, now: float) -> bool:
        """Whether its processor time is to be read now; `silent_s`: what counts so far."""
        asked_at = self._asked_at.get(kind)
        if silent_s < ASK_AFTER_S or (asked_at is not None and now - asked_at < ASK_EVERY_S):
            return False
        self._asked_at[kind] = now
        return True

    def read(self, kind: str, processor_s: float, now: float) -> None:
        """Its processor time since it began; what it was used for is told by the one read before."""
        before = self._read.get(kind)
        self._read[kind] = processor_s, now
        if before is None or not 0.0 < now - before[1] <= 3 * ASK_EVERY_S:
            return
        if processor_s - before[0] >= LEAST_SHARE * (now - before[1]):
            self._working_until[kind] = now + 2 * ASK_EVERY_S
        else:
            self._working_until.pop(kind, None)

    def ended(self, kind: str) -> None:
        """The process is gone: what is known is not of the next one."""
        for known in (self._asked_at, self._read, self._working_until):
            known.pop(kind, None)
