"""How many devices of a kind a trace needs: the least number of workers that meets the goal.

Each number is tried by playing the whole trace against the real core; decides what binds by asking
what would have helped one device fewer: memory without end, or nothing but more devices.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from shoal.sim.fleet import Fleet, Kind, Size, model_on
from shoal.sim.meter import Outcome
from shoal.sim.rules import PULL
from shoal.sim.run import play
from shoal.sim.scenario import Cluster, Scenario, Traffic
from shoal.sim.stage import Span
from shoal.sim.trace import Trace

#: Most devices of one kind that are tried.
MOST = 512
#: Share of a trace in which caches and cost models warm up, not judged.
WARM = 0.2
#: Steps in the search of headroom, between once and four times the traffic: known to 9 %.
HEADROOM_STEPS, HEADROOM_MOST = 4, 4.0
#: The goal is missed by one device fewer while devices are mostly idle: what binds is no throughput.
IDLE = 0.5

Bound = Literal["throughput", "memory", "latency", "one is enough"]


class Advice(msgspec.Struct, frozen=True):
    """What one kind of device would take.

    Attributes:
        devices: 0: no number that was tried meets the goal.
        headroom: how many times the traffic these would still carry.
        bound: why one fewer would not do.
    """

    kind: Kind
    devices: int
    bound: Bound
    outcome: Outcome | None = None
    headroom: float = 0.0

    @property
    def price(self) -> float:
        """Of all devices."""
        return self.devices * self.kind.price


def advise(trace: Trace, fleet: Fleet, kind: Kind, goal_s: float, share: float) -> Advice:
    """The least number of devices of this kind so that `share` of requests are within `goal_s`."""
    least, most = 0, 1
    good: Outcome | None = None
    while most <= MOST:
        outcome = _try(trace, fleet, kind, goal_s, most)
        if outcome.late <= 1 - share:
            good = outcome
            break
        least, most = most, most * 2
    if good is None:
        return Advice(kind, 0, "latency")
    while most - least > 1:
        middle = (least + most) // 2
        outcome = _try(trace, fleet, kind, goal_s, middle)
        if outcome.late <= 1 - share:
            good, most = outcome, middle
        else:
            least = middle
    bound = _bound(trace, fleet, kind, goal_s, share, most)
    return Advice(kind, most, bound, good, _headroom(trace, fleet, kind, goal_s, share, most))


def _try(
    trace: Trace,
    fleet: Fleet,
    kind: Kind,
    goal_s: float,
    workers: int,
    faster: float = 1.0,
    *,
    memory: bool = True,
) -> Outcome:
    world = _world(trace, fleet, kind, goal_s, workers, memory=memory)
    seconds = trace.seconds / faster
    span = Span(WARM * seconds, (1 - WARM) * seconds, give_up=True)
    return play(world, PULL, trace.faster(faster), span, seed=1)


def _world(
    trace: Trace, fleet: Fleet, kind: Kind, goal_s: float, workers: int, *, memory: bool
) -> Scenario:
    longest = max(max(request.lengths) for request in trace.requests)
    models = tuple(
        model_on(kind, name, trace.share(name), fleet.models.get(name, Size()), longest)
        for name in trace.models
    )
    room = int(kind.memory_gb * (1 << 30))
    fits = not memory or sum(model.bytes for model in models) <= room
    cluster = Cluster(workers, lane_bytes=None if fits else room)
    return Scenario(kind.name, models, Traffic(), cluster, goal_s)


def _bound(
    trace: Trace, fleet: Fleet, kind: Kind, goal_s: float, share: float, devices: int
) -> Bound:
    if devices == 1:
        return "one is enough"
    fewer = _try(trace, fleet, kind, goal_s, devices - 1, memory=False)
    if fewer.late <= 1 - share:
        return "memory"
    return "latency" if fewer.utilisation < IDLE else "throughput"


def _headroom(
    trace: Trace, fleet: Fleet, kind: Kind, goal_s: float, share: float, devices: int
) -> float:
    least, most = 1.0, HEADROOM_MOST
    for _ in range(HEADROOM_STEPS):
        middle = (least * most) ** 0.5
        if _try(trace, fleet, kind, goal_s, devices, middle).late <= 1 - share:
            least = middle
        else:
            most = middle
    return least
