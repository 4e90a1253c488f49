"""When a worker pulses, and when one that is silent counts as gone.

All workers of a pool and all gateways hear every pulse, and a pulse tells all its models. So what has
changed is told at once, and what has not the more seldom the larger the pool is. What a pulse
says it must not know, only whether that is new.
"""

from __future__ import annotations

#: How often it is looked whether to pulse, and how often a worker of a small pool does.
PULSE_S = 0.5
#: All workers of a pool together pulse so often, a second. One pulse of 200 models has 20 kB and costs
#: who hears it 0.1 ms.
MOST_PER_S = 128
#: After so many pulses that did not come a worker is gone, or cut off.
MISSED = 6


def period_s(workers: int) -> float:
    """Seconds between two pulses of a worker in a pool of so many, while nothing changes."""
    return max(PULSE_S, workers / MOST_PER_S)


def silent_s(workers: int) -> float:
    """A worker that was not heard of for so long is gone."""
    return MISSED * period_s(workers)


class Rhythm:
    """When one worker pulses."""

    def __init__(self) -> None:
        self._said: object = None
        self._due = 0.0

    def due(self, said: object, workers: int, now: float) -> bool:
        """Whether to pulse now: `said` is other than last time, or it is time to be heard again.

        Looked at every `PULSE_S`: of two looks the one that is nearer to the right time is taken.
        """
        if said == self._said and now < self._due:
            return False
        self._said, self._due = said, now + period_s(workers) - PULSE_S / 2
        return True
