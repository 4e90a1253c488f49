"""A pool of real cores around one queue, one store of claims and runtimes that hold what they load.

On a virtual clock, with every source of chance from the seed. After every step the runtimes' memory
is held against the budgets.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter, deque
from typing import cast

import msgspec

from shoal.core import events as ev
from shoal.core.batcher import Budget
from shoal.core.eviction import Policy
from shoal.core.models import ModelSpec
from shoal.core.worker import WorkerConfig, WorkerCore
from shoal.values import Features

MB = 10**6
BUDGET = Budget(seconds=0.05, tokens=4096, items=32)
#: Ten milliseconds a batch and one a unit of ten tokens.
COST = (0.01, 1e-4, 0.0, 0.0)
UNIT_S = 0.01
GATEWAY_PULSE_S = 0.25
WORKER_PULSE_S = 0.5


class Kind(msgspec.Struct, frozen=True):
    """A model as its runtime knows it; its files are broken on these workers."""

    name: str
    bytes: int
    load_s: float
    guess: int = 0
    min_replicas: int = 0
    broken_on: tuple[str, ...] = ()

    def spec(self) -> ModelSpec:
        return ModelSpec(
            self.name, "fake", 512, BUDGET, COST, self.guess or self.bytes, 1.0, self.min_replicas
        )


class Loading(msgspec.Struct, frozen=True):
    worker: str
    lane: str
    model: str
    at: float
    seconds: float


class Pool:
    """Workers, their broker and their runtimes."""

    def __init__(
        self,
        kinds: list[Kind],
        workers: int,
        lane_bytes: int,
        *,
        seed: int = 0,
        pinned: tuple[str, ...] = (),
        eviction: Policy = "gdsf",
    ) -> None:
        self.rng = random.Random(seed)
        self.kinds = {kind.name: kind for kind in kinds}
        self.lane_bytes = lane_bytes
        self.pinned = pinned
        self.cores = {
            f"w{number}": WorkerCore(
                WorkerConfig(
                    lanes=["cpu"],
                    models=[kind.spec() for kind in kinds],
                    pinned=list(pinned),
                    worker=f"w{number}",
                    lane_bytes={"cpu": lane_bytes},
                    eviction=eviction,
                    settle_s=1.0,
                )
            )
            for number in range(workers)
        }
        self.now = 0.0
        self.timeline: list[tuple[float, int, str, object]] = []
        self.count = 0
        self.queue: dict[str, deque[str]] = {kind.name: deque() for kind in kinds}
        self.standing: dict[tuple[str, int], str] = {}
        self.heads: dict[str, ev.UnitHead] = {}
        self.waiting: dict[str, tuple[str, float]] = {}
        self.claims: dict[str, tuple[str, float]] = {}
        self.held: dict[str, dict[str, int]] = {worker: {} for worker in self.cores}
        self.loads: list[Loading] = []
        self.evictions: list[tuple[float, str, str]] = []
        self.waits: list[tuple[str, float]] = []
        self.failed: Counter[str] = Counter()
        self.dead: set[str] = set()
        self.wakes = dict.fromkeys(self.cores, float("inf"))
        self.broker_up = True
        self.later(0.0, "gateway")
        for worker in self.cores:
            self.later(self.rng.random() * WORKER_PULSE_S, "pulse", worker)
            self.later(0.0, worker, ev.Ticked())

    def later(self, at: float, to: str, what: object = None) -> None:
        self.count += 1
        heapq.heappush(self.timeline, (at, self.count, to, what))

    def request(self, at: float, model: str) -> None:
        """One unit of ten tokens for `model`."""
        self.later(at, "request", model)

    def kill(self, worker: str) -> None:
        """It is gone with all it has; its units come back at once, its claims as they end."""
        self.dead.add(worker)
        self.held[worker] = {}
        self.wakes[worker] = float("inf")
        for unit in [u for u, head in self.heads.items() if u in self.waiting]:
            if self.cores[worker].units.get(unit) is not None:
                self.queue[self.heads[unit].model].append(unit)

    # --- time ---------------------------------------------------------------------------------------

    def run_until(self, end: float) -> None:
        while True:
            wake, name = min((wake, name) for name, wake in self.wakes.items())
            if self.timeline and self.timeline[0][0] <= wake:
                if self.timeline[0][0] > end:
                    break
                self.now, _, to, what = heapq.heappop(self.timeline)
                self.happen(to, what)
            elif wake <= end:
                self.now = max(self.now + 1e-6, wake)
                self.tell(name, ev.Ticked())
            else:
                break
        self.now = end

    def happen(self, to: str, what: object) -> None:
        match to:
            case "gateway":
                self.later(self.now + GATEWAY_PULSE_S, "gateway")
                seconds: dict[str, float] = {}
                for model, _ in self.waiting.values():
                    seconds[model] = seconds.get(model, 0.0) + UNIT_S
                for worker in self.cores:
                    self.tell(worker, ev.DemandSeen("g", seconds))
            case "pulse":
                assert isinstance(what, str)
                if what not in self.dead:
                    self.later(self.now + WORKER_PULSE_S, "pulse", what)
                    self.pulse(what)
            case "request":
                assert isinstance(what, str)
                self.publish(what)
            case _:
                assert not isinstance(what, str) and what is not None
                if isinstance(what, ev.Loaded):
                    self.held[to][what.model] = what.bytes
                if isinstance(what, ev.Evicted):
                    self.held[to].pop(what.model, None)
                self.tell(to, cast(ev.Event, what))

    def tell(self, worker: str, event: ev.Event) -> None:
        if worker in self.dead:
            return
        for instruction in self.cores[worker].handle(event, self.now):
            self.perform(worker, instruction)
        wake = self.cores[worker].next_wake(self.now)
        self.wakes[worker] = float("inf") if wake is None else wake
        self.check(worker)

    def pulse(self, worker: str) -> None:
        core = self.cores[worker]
        models = {
            name: ev.PeerModel(
                model.state,
                sum(name in lane.resident for lane in core.lanes.values()),
                model.footprint.bytes if model.footprint.measured else 0,
                model.footprint.load_s if model.footprint.measured else 0.0,
                model.failures,
                model.reason,
            )
            for name, model in core.models.items()
            if model.state != "absent"
        }
        for peer in self.cores:
            if peer != worker:
                self.tell(peer, ev.PeerSeen(worker, models))

    # --- the broker ---------------------------------------------------------------------------------

    def publish(self, model: str) -> None:
        unit = f"u{len(self.heads)}"
        self.heads[unit] = ev.UnitHead(unit, unit, model, Features(10, 1), self.now + 600.0)
        self.waiting[unit] = (model, self.now)
        self.queue[model].append(unit)
        for (worker, pull), name in list(self.standing.items()):
            if name == model and self.queue[model]:
                del self.standing[worker, pull]
                self.deliver(worker, pull, model)

    def deliver(self, worker: str, pull: int, model: str) -> None:
        unit = self.queue[model].popleft()
        event = ev.Arrived(self.heads[unit], pull, len(self.queue[model]))
        self.later(self.now + 3e-4, worker, event)

    def perform(self, worker: str, do: ev.Instruction) -> None:
        match do:
            case ev.Pull(pull, model, count, standing):
                if standing and not self.queue[model]:
                    self.standing[worker, pull] = model
                    return
                for _ in range(min(count, len(self.queue[model]))):
                    self.deliver(worker, pull, model)
                self.later(self.now + 4e-4, worker, ev.PullEnded(pull, found_all=not standing))
            case ev.Withdraw(pull):
                self.standing.pop((worker, pull), None)
                self.later(self.now + 2e-4, worker, ev.PullEnded(pull))
            case ev.Prepare(unit):
                self.later(self.now + 1e-3, worker, ev.Prepared([(unit, [10])]))
            case ev.Run(lane, batch):
                assert do.model in self.held[worker], "a batch of a model that is not there"
                self.later(
                    self.now + do.predicted_s, worker, ev.Finished(lane, batch, do.predicted_s)
                )
            case ev.StartRuntime(lane, kind):
                self.later(self.now + 0.5, worker, ev.RuntimeStarted(lane, kind))
            case ev.Load(lane, model):
                self.load(worker, lane, model)
            case ev.Evict(lane, model):
                assert model not in self.pinned, "evicted a pinned model"
                self.evictions.append((self.now, worker, model))
                self.later(self.now + 0.01, worker, ev.Evicted(lane, model))
            case ev.Claim(model, ttl_s):
                self.claim(worker, model, ttl_s)
            case ev.Unclaim(model):
                if self.claims.get(model, ("", 0.0))[0] == worker:
                    del self.claims[model]
            case ev.Reply(unit):
                if unit in self.waiting:
                    model, since = self.waiting.pop(unit)
                    self.waits.append((model, self.now - since))
                self.later(self.now + 5e-4, worker, ev.Settled(unit))
            case ev.Fail(unit):
                self.failed[self.heads[unit].model] += 1
                self.waiting.pop(unit, None)
                self.later(self.now + 5e-4, worker, ev.Settled(unit))
            case ev.Return(unit, delay_s):
                self.later(self.now + delay_s, "request", self.heads[unit].model)
                self.waiting.pop(unit, None)

    def claim(self, worker: str, model: str, ttl_s: float) -> None:
        if not self.broker_up:
            self.later(self.now + 1e-3, worker, ev.ClaimRefused(model))
            return
        owner, until = self.claims.get(model, ("", 0.0))
        mine = owner in ("", worker) or until <= self.now
        if mine:
            self.claims[model] = (worker, self.now + ttl_s)
        answer = ev.Claimed(model) if mine else ev.ClaimRefused(model)
        self.later(self.now + 2e-3, worker, answer)

    def load(self, worker: str, lane: str, model: str) -> None:
        kind = self.kinds[model]
        seconds = kind.load_s * self.rng.uniform(0.8, 1.2)
        self.loads.append(Loading(worker, lane, model, self.now, seconds))
        failed = ev.LoadFailed(lane, model, "broken")
        loaded = ev.Loaded(lane, model, kind.bytes, seconds)
        self.later(self.now + seconds, worker, failed if worker in kind.broken_on else loaded)

    # --- what must hold -----------------------------------------------------------------------------

    def check(self, worker: str) -> None:
        lane = self.cores[worker].lanes["cpu"]
        over = sum(self.held[worker].values()) > self.lane_bytes
        # A model that turned out larger than it was thought is over the budget until it, or
        # another, is gone: only while an eviction is under way.
        assert not over or lane.evicting, f"{worker} holds {self.held[worker]}"
        assert lane.memory.free >= 0 or lane.evicting
        assert set(self.held[worker]) >= lane.resident
