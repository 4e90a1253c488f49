"""How many devices of a kind a trace needs: the least number of workers that meets the goal.

Each number is tried by playing the whole trace against the real core; decides what binds by asking
what would have helped one device fewer: memory without end, or nothing but more devices.
"""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from shoal.errors import ConfigError
from shoal.sim.fleet import Fleet, Kind, Size, model_on
from shoal.sim.meter import Outcome
from shoal.sim.rules import PULL
from shoal.sim.run import play
from shoal.sim.scenario import Cluster, Model, Scenario, Traffic
from shoal.sim.stage import Span
from shoal.sim.trace import Trace
from shoal.sim.workload import Request

#: Most devices of one kind that are tried.
MOST = 512
#: Share of a trace in which cost models warm up, not judged.
WARM = 0.2
#: Time for devices that start with nothing to load what is asked for.
LOADING_S = 20.0
#: Steps in the search of headroom, between once and four times the traffic: known to 9 %.
HEADROOM_STEPS, HEADROOM_MOST = 4, 4.0
#: The goal is missed while devices are mostly idle: what binds is no throughput.
IDLE = 0.5
#: And if they are nearly all idle, more of them will not help.
HOPELESS = 0.02

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


class Question(msgspec.Struct, frozen=True):
    """The least number of devices of this kind so that `share` of requests are within `goal_s`."""

    trace: Trace
    fleet: Fleet
    kind: Kind
    goal_s: float
    share: float = 0.99

    def answer(self) -> Advice:
        """Search it: doubling first, then by halves.

        Raises:
            ConfigError: no request came in the part of the trace that is judged.
        """
        least, most = 0, 1
        good: Outcome | None = None
        while most <= MOST and good is None:
            outcome = self._try(most)
            if not outcome.offered:
                raise ConfigError(
                    f"all requests of this trace but the last came in its first {WARM:.0%}, in which "
                    "nothing is judged: give a longer trace"
                )
            if self._good(outcome):
                good = outcome
            elif self._fits and most > 1 and outcome.utilisation < HOPELESS:
                break
            else:
                least, most = most, most * 2
        if good is None:
            return Advice(self.kind, 0, "latency")
        while most - least > 1:
            middle = (least + most) // 2
            outcome = self._try(middle)
            if self._good(outcome):
                good, most = outcome, middle
            else:
                least = middle
        return Advice(self.kind, most, self._bound(most), good, self._headroom(most))

    def _good(self, outcome: Outcome) -> bool:
        return outcome.late <= 1 - self.share

    def _try(self, workers: int, faster: float = 1.0, *, memory: bool = True) -> Outcome:
        world = self._world(workers, memory=memory)
        requests, seconds = self.trace.faster(faster), self.trace.seconds / faster
        span = Span(WARM * seconds, (1 - WARM) * seconds, give_up=True)
        if world.cluster.lane_bytes is not None:
            # First to load what is asked for, as often as that takes; then once more to be judged.
            passes = math.ceil(LOADING_S / seconds)
            requests = [
                Request(r.at + number * seconds, r.model, r.lengths)
                for number in range(passes + 1)
                for r in requests
            ]
            span = Span(passes * seconds, seconds, give_up=True)
        return play(world, PULL, requests, span, seed=1)

    @property
    def _models(self) -> tuple[Model, ...]:
        trace, sizes = self.trace, self.fleet.models
        longest = max(max(request.lengths) for request in trace.requests)
        return tuple(
            model_on(self.kind, name, trace.share(name), sizes.get(name, Size()), longest)
            for name in trace.models
        )

    @property
    def _room(self) -> int:
        return int(self.kind.memory_gb * (1 << 30))

    @property
    def _fits(self) -> bool:
        """Whether one device holds all models."""
        return sum(model.bytes for model in self._models) <= self._room

    def _world(self, workers: int, *, memory: bool) -> Scenario:
        limited = memory and not self._fits
        cluster = Cluster(workers, lane_bytes=self._room if limited else None)
        return Scenario(self.kind.name, self._models, Traffic(), cluster, self.goal_s)

    def _bound(self, devices: int) -> Bound:
        if devices == 1:
            return "one is enough"
        fewer = self._try(devices - 1, memory=False)
        if self._good(fewer):
            return "memory"
        return "latency" if fewer.utilisation < IDLE else "throughput"

    def _headroom(self, devices: int) -> float:
        least, most = 1.0, HEADROOM_MOST
        for _ in range(HEADROOM_STEPS):
            middle = (least * most) ** 0.5
            if self._good(self._try(devices, middle)):
                least = middle
            else:
                most = middle
        return least
