"""The knee: the highest load that is answered within the goal, found by bisection.

A load is good if at most one request in a hundred is late. Runs that are clearly lost end early,
so that a search costs about as much as its good runs.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from shoal.sim.meter import Outcome

#: Share of requests that may be late: the 99th percentile is the goal.
LATE = 0.01


class Knee(msgspec.Struct, frozen=True):
    """The highest good load and what was measured there. `load`: as a share of capacity."""

    load: float
    outcome: Outcome


def find_knee(
    run: Callable[[float], Outcome], least: float, most: float, steps: int
) -> Knee | None:
    """Bisect loads between `least` and `most`, geometrically; None if even `least` is too much.

    After n steps the knee is known up to a factor of (most / least)^(1/2^n).
    """
    best: Knee | None = None
    for _ in range(steps):
        load = (least * most) ** 0.5
        outcome = run(load)
        if outcome.late <= LATE:
            best, least = Knee(load, outcome), load
        else:
            most = load
    return best
