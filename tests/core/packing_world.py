"""A pool of real cores around one queue, one store of claims and runtimes that hold what they load.

On a virtual clock, with every source of chance from the seed. After every step the runtimes' memory
is held against the budgets. Faults are attributes and methods, for whoever drives it.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter, deque
from typing import cast

from shoal.core import events as ev
from shoal.core.batcher import Budget
from shoal.core.config import WorkerConfig
from shoal.core.eviction import Policy
from shoal.core.models import ModelSpec
from shoal.core.worker import WorkerCore
from shoal.values import Features

from .packing_runtimes import Kind, Loading, Runtimes

MB = 10**6
BUDGET = Budget(seconds=0.05, tokens=4096, items=32)
#: Ten milliseconds a batch and one a unit of ten tokens.
COST = (0.01, 1e-4, 0.0, 0.0)
UNIT_S = 0.01
GATEWAY_PULSE_S = 0.25
WORKER_PULSE_S = 0.5


def spec(kind: Kind) -> ModelSpec:
    return ModelSpec(
        kind.name,
        kind.kind,
        512,
        BUDGET,
        COST,
        kind.bytes if kind.guess is None else kind.guess,
        1.0,
        kind.min_replicas,
        fetched=kind.fetch_s == 0,
    )


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
        lanes: tuple[str, ...] = ("cpu",),
        cooldown_s: float = 60.0,
    ) -> None:
        self.rng = random.Random(seed)
        self.kinds = {kind.name: kind for kind in kinds}
        self.lane_bytes = lane_bytes
        self.pinned = pinned
        self.cores = {
            f"w{number}": WorkerCore(
                WorkerConfig(
                    lanes=list(lanes),
                    models=[spec(kind) for kind in kinds],
                    pinned=list(pinned),
                    worker=f"w{number}",
                    lane_bytes=dict.fromkeys(lanes, lane_bytes),
                    eviction=eviction,
                    settle_s=1.0,
                    rss_ceiling=10.0,
                    cooldown_s=cooldown_s,
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
        self.runtimes = Runtimes(
            self.kinds,
            lambda: self.rng.uniform(0.8, 1.2),
            lambda at, worker, says: self.later(at, worker, says),
        )
        self.evictions: list[tuple[float, str, str]] = []
        self.waits: list[tuple[str, float]] = []
        self.failed: Counter[str] = Counter()
        self.dead: set[str] = set()
        self.wakes = dict.fromkeys(self.cores, float("inf"))
        self.frozen: dict[str, float] = {}  # worker -> until when it is stopped
        self.deaf_until = 0.0  # no pulse of a worker is heard
        self.refuses = False  # the gateway what nobody can load; else callers ask again at once
        self.broker_up = True
        self.upset_at = -10.0  # when a worker, or the word of one, was last lost
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
        self.upset_at = self.now
        self.runtimes.lose(worker)
        self.wakes[worker] = float("inf")
        self.standing = {at: name for at, name in self.standing.items() if at[0] != worker}
        for unit in [u for u, head in self.heads.items() if u in self.waiting]:
            if self.cores[worker].units.get(unit) is not None:
                self.enqueue(unit)

    def freeze(self, worker: str, seconds: float) -> None:
        """It is stopped; what happens meanwhile it hears at once when it goes on."""
        self.frozen[worker] = self.upset_at = self.now + seconds
        self.wakes[worker] = max(self.wakes[worker], self.frozen[worker])

    def held(self, worker: str, lane: str = "cpu") -> dict[str, int]:
        """What is in the memory of a lane."""
        return self.runtimes.held(worker, lane)

    def lives(self, worker: str, lane: str, model: str) -> bool:
        """Whether the process that is to hold it does; else the worker is about to hear."""
        return (worker, lane, self.kinds[model].kind) in self.runtimes.processes

    @property
    def loads(self) -> list[Loading]:
        return self.runtimes.loads

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
                    self.later(self.now, worker, ev.DemandSeen("g", seconds))
                if self.refuses:
                    self.refuse()
            case "pulse":
                assert isinstance(what, str)
                if what not in self.dead:
                    self.later(self.now + WORKER_PULSE_S, "pulse", what)
                    if self.now >= max(self.deaf_until, self.frozen.get(what, 0.0)):
                        self.pulse(what)
            case "request":
                assert isinstance(what, str)
                self.publish(what)
            case worker if worker in self.dead:
                if isinstance(what, ev.Arrived):
                    self.enqueue(what.unit.id)
            case worker if self.frozen.get(worker, 0.0) > self.now:
                self.later(self.frozen[worker], worker, what)
            case worker:
                event = what() if callable(what) else what
                if event is not None:
                    self.tell(worker, cast(ev.Event, event))

    def tell(self, worker: str, event: ev.Event) -> None:
        if worker in self.dead:
            return
        for instruction in self.cores[worker].handle(event, self.now):
            self.perform(worker, instruction)
        wake = self.cores[worker].next_wake(self.now)
        thaws_at = self.frozen.get(worker, 0.0)
        self.wakes[worker] = float("inf") if wake is None else max(wake, thaws_at)
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
                self.later(self.now, peer, ev.PeerSeen(worker, models, len(core.lanes)))

    def refuse(self) -> None:
        """The gateway: what all workers say they cannot load is answered with that."""
        cores = [core for worker, core in self.cores.items() if worker not in self.dead]
        for unit, (model, _) in list(self.waiting.items()):
            if all(core.models[model].state == "failed" for core in cores):
                self.failed[model] += 1
                del self.waiting[unit]
                if unit in self.queue[model]:
                    self.queue[model].remove(unit)

    # --- the broker ---------------------------------------------------------------------------------

    def publish(self, model: str) -> None:
        unit = f"u{len(self.heads)}"
        self.heads[unit] = ev.UnitHead(unit, unit, model, Features(10, 1), self.now + 600.0)
        self.waiting[unit] = (model, self.now)
        self.enqueue(unit)

    def enqueue(self, unit: str) -> None:
        model = self.heads[unit].model
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
            case ev.Run(lane, model=model):
                self.runtimes.told((worker, lane, self.kinds[model].kind), do, self.now)
            case ev.StartRuntime(lane, kind):
                self.runtimes.start((worker, lane, kind), self.now)
            case ev.KillRuntime(lane, kind) | ev.StopRuntime(lane, kind) | ev.AskStats(lane, kind):
                self.runtimes.told((worker, lane, kind), do, self.now)
            case ev.Fetch(model):
                self.later(self.now + self.kinds[model].fetch_s, worker, ev.Fetched(model))
            case ev.Load(lane, model):
                self.runtimes.told((worker, lane, self.kinds[model].kind), do, self.now)
            case ev.Evict(lane, model):
                self.may_go(model, do.reason)
                self.evictions.append((self.now, worker, model))
                self.runtimes.told((worker, lane, self.kinds[model].kind), do, self.now)
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

    # --- what must hold -----------------------------------------------------------------------------

    def may_go(self, model: str, reason: str) -> None:
        """What is pinned or kept goes only where it turned out larger than there is room for."""
        if not reason.startswith(f"{model} holds more"):
            assert model not in self.pinned, "evicted a pinned model"
            left = sum(
                lane.wants(model)
                for worker, core in self.cores.items()
                if worker not in self.dead
                for lane in core.lanes.values()
            )
            calm = self.now > self.upset_at + 10.0
            assert left >= self.kinds[model].min_replicas or not calm, f"too few of {model}"

    def check(self, worker: str) -> None:
        for lane in self.cores[worker].lanes.values():
            held = self.held(worker, lane.id)
            # A model that turned out larger than it was thought is over the budget until it, or
            # another, is gone: only while an eviction is under way.
            assert sum(held.values()) <= self.lane_bytes or lane.evicting, f"{worker} holds {held}"
            assert lane.memory.free >= 0 or lane.evicting
            assert set(held) >= {m for m in lane.resident if self.lives(worker, lane.id, m)}
            assert set(lane.memory.copies) >= lane.resident | lane.evicting
            assert not (lane.resident & lane.evicting)
