"""The worker's state machine: what to pull, prepare, run, answer, give back, load and restart.

`handle(event, now)` returns what the shell is to do: what follows from the event alone (`react`), then
what follows from all that is known (`decide`). A shell to which many events come at once reacts to each
and decides once; `next_wake()` says when to decide again though nothing happened. Pure: no clock, no
I/O, no queue, no device, no contents.
"""

from __future__ import annotations

import math
from typing import assert_never

from shoal.core import events as ev
from shoal.core.config import WorkerConfig
from shoal.core.cooldowns import Cooldowns, load_error
from shoal.core.delivery import Units
from shoal.core.dispatch import Dispatch
from shoal.core.events import Instruction
from shoal.core.groups import Audience
from shoal.core.isolation import Isolation
from shoal.core.lanes import Lane
from shoal.core.models import ModelState
from shoal.core.packing import Limits, Packing
from shoal.core.processes import Processes
from shoal.core.pulling import Pulls
from shoal.core.residency import Residency
from shoal.core.returning import AT_ONCE_S, SLOW, Returning
from shoal.core.seats import Seats
from shoal.core.strangers import Stranger, Strangers

NEVER = -math.inf
#: Events from which nothing else follows while nothing is due; one in four or more.
QUIET = (ev.Settled, ev.PeerPulled, ev.ProcessorSeen, ev.Progressed)
#: Events that come with every unit or from every process, and never change what is resident.
FREQUENT = (
    ev.PeerPulled,
    ev.PeerSeen,
    ev.DemandSeen,
    ev.Arrived,
    ev.Prepared,
    ev.Finished,
    ev.ProcessorSeen,
    ev.Progressed,
    ev.Settled,
    ev.PullEnded,
    ev.Ticked,
)


class WorkerCore:
    """One worker: units it holds, lanes it owns, models it knows."""

    def __init__(self, config: WorkerConfig) -> None:
        self._config = config
        self.pinned = frozenset(config.pinned)
        self.lanes = {name: Lane(name, config.lane_bytes.get(name)) for name in config.lanes}
        self.models = {spec.name: ModelState(spec) for spec in config.models}
        self.units = Units(self.models)
        self.draining = False
        self._connected = True
        self._undecided = True
        self._wake = NEVER  # until then nothing is due, unless something happens
        cooldowns = Cooldowns(config.worker, config.cooldown_s)
        self._residency = Residency(self.lanes, self.models, self.pinned, cooldowns)
        self._processes = Processes(self.lanes, self.models, self._residency)
        limits = Limits(config.eviction, config.on_demand, config.settle_s, config.rss_ceiling)
        strangers = Strangers(config.worker, config.cooldown_s)
        self._packing = Packing(
            self.lanes, self.models, self.pinned, self._residency, limits, strangers
        )
        seats = Seats(self.lanes, self.models, self.units)
        parts = (self.lanes, self.models, self.units, self._packing.elsewhere, seats)
        audience = Audience(config.worker, len(self.lanes), self._packing.pool)
        self._pulls = Pulls(*parts, config.pull_margin_s, audience)
        self._returning = Returning(*parts)
        in_use = self._pulls.sources.in_use
        held = (self.lanes, self.models, self.units)
        self._dispatch = Dispatch(*held, config.margin_s, in_use, seats)
        self._isolation = Isolation(*held)

    def handle(self, event: ev.Event, now: float) -> list[Instruction]:
        """Take in what happened at `now` and decide; returns what to do, in order."""
        return self.react(event, now) + self.decide(now)

    def react(self, event: ev.Event, now: float) -> list[Instruction]:
        """Take in what happened at `now`; returns what follows from it alone."""
        if not isinstance(event, QUIET):
            self._undecided = True
        if not isinstance(event, FREQUENT):
            self._pulls.residency_changed()
        return self._react(event, now)

    def decide(self, now: float) -> list[Instruction]:
        """What follows from all that happened since this was last asked, and from the time."""
        if not self._undecided and now < self._wake:
            return []
        self._undecided, self._wake = False, NEVER
        self._residency.cool(now)
        out = self.units.look(now)
        out += self._packing.decide(now, begin=self._connected and not self.draining)
        out += self._processes.decide(now)
        out += self._dispatch.decide(now, self._processes.spared)
        if self._connected and not self.draining:
            out += self._pulls.decide(now)
        return out

    def next_wake(self, now: float) -> float | None:
        """When the shell must let it decide again at the latest; None: only events matter."""
        if not self._undecided and now < self._wake:  # what came since is none that is due earlier
            return self._wake if self._wake < math.inf else None
        times = [
            self.units.next_wake(),
            self._residency.next_wake(),
            self._processes.next_wake(),
            self._packing.next_wake(),
            self._pulls.next_wake(now),
        ]
        margins_s = (self._pulls.lead.seconds, self._config.margin_s)
        times += [
            lane.next_wake(now, margins_s)
            for lane in self.lanes.values()
            if lane.batches or lane.seats
        ]
        wakes = [time for time in times if time is not None]
        if not wakes:
            self._wake = math.inf
            return None
        self._wake = min(wakes)
        return self._wake

    @property
    def workers(self) -> int:
        """How many workers the pool has, this one among them, as far as it was heard of them."""
        return 1 + self._packing.pool.workers

    def strangers(self, now: float) -> dict[str, Stranger]:
        """Models with work that this worker will not load, of which others are to hear so."""
        return self._packing.strangers(now)

    def pinned_failed(self) -> list[str]:
        """Pinned models that could not be loaded."""
        return [name for name in self._config.pinned if self.models[name].state == "failed"]

    def _react(self, event: ev.Event, now: float) -> list[Instruction]:
        match event:
            case ev.Arrived():
                return self._arrived(event, now)
            case ev.Prepared():
                return self._prepared(event, now)
            case ev.Finished():
                return self._finished(event, now)
            case ev.Progressed(lane, kind):
                self.lanes[lane].progressed(kind)
            case ev.ProcessorSeen(lane, kind, processor_s):
                self.lanes[lane].patience.read(kind, processor_s, now)
            case ev.Settled():
                return self.units.settled(event.unit)
            case ev.PullEnded():
                return self._pulls.ended(event, now)
            case ev.PeerPulled():
                self._pulls.sources.peer_pulled(event, now)
            case ev.Ticked():
                pass
            case ev.Unheard():
                return self.units.unheard(event.unit, now)
            case ev.Cancelled():
                return self.units.cancelled(event.requests, now)
            case ev.BatchFailed():
                return self._isolation.failed(event, now, self._packing.relieve)
            case ev.Fetched() | ev.Loaded():
                out = self._packing.react(event, now)
                return out + self._fail_units(self.models[event.model], now)
            case ev.FetchFailed():
                model = self.models[event.model]
                self._residency.fetch_failed(model, event, now)
                return self._fail_units(model, now)
            case ev.FilesChanged():
                self._residency.mended(self.models[event.model])
            case ev.LoadFailed():
                return self._load_failed(event, now)
            case ev.DemandSeen():
                return self._demand_seen(event, now)
            case ev.PeerSeen() | ev.PeerLost() | ev.Claimed() | ev.ClaimRefused():
                return self._packing.react(event, now)
            case ev.Evicted() | ev.StatsSeen():
                return self._packing.react(event, now)
            case ev.RuntimeStopped():
                self._packing.runtime_ended(self.lanes[event.lane], event.kind)
                self._processes.stopped(self.lanes[event.lane], event.kind, now)
            case ev.RuntimeStarted():
                return self._runtime_started(event, now)
            case ev.RuntimeDied():
                return self._runtime_died(event, now)
            case ev.BrokerLost():
                self._connected = False
                self._pulls.lost()
            case ev.BrokerBack():
                self._connected = True
                return self.units.resend(now)
            case ev.DrainBegan():
                return self._drain(now)
            case _:
                assert_never(event)
        return []

    def _arrived(self, event: ev.Arrived, now: float) -> list[Instruction]:
        unit, model = event.unit, self.models[event.unit.model]
        asked = self._pulls.arrived(event, now)
        out = self.units.arrived(unit, now)
        if out != [ev.Prepare(unit.id)]:
            return out
        if self.draining or model.state in ("absent", "failed"):
            return self.units.give_back(unit.id)
        if asked:
            return out
        if self._returning.unasked(unit, now):
            self._pulls.gave_back(unit)
            return self.units.give_back(unit.id, AT_ONCE_S)
        return out

    def _prepared(self, event: ev.Prepared, now: float) -> list[Instruction]:
        out: list[Instruction] = []
        models: dict[str, None] = {}
        for unit, lengths in event.units:
            held = self.units.get(unit)
            if held is not None:
                models[held.head.model] = None
                out += self.units.prepared(unit, lengths, event.of.get(unit, ()), now)
        for name in models:
            self._pulls.prepared(name, now)
            out += self._give_back(name)
        return out

    def _finished(self, event: ev.Finished, now: float) -> list[Instruction]:
        batch = self.lanes[event.lane].finished(event.batch, now)
        if batch is None:
            return []
        if self.models[batch.model].spec.sequences:
            return self._dispatch.finished(batch, event, now)
        self.models[batch.model].ran(batch.predicted_s)
        out = self._dispatch.finished(batch, event, now)
        self._pulls.lead.computed(batch.predicted_s, event.seconds)
        slower = event.seconds / batch.predicted_s
        if slower > SLOW:
            out += self._give_back(batch.model, slower)
        return out

    def _give_back(self, model: str, slower: float = 1.0) -> list[Instruction]:
        """Give back what turned out to be too much."""
        heads = self._returning.excess(model, slower)
        for head in heads:
            self._pulls.gave_back(head)
        return [i for head in heads for i in self.units.give_back(head.id, AT_ONCE_S)]

    def _demand_seen(self, event: ev.DemandSeen, now: float) -> list[Instruction]:
        bulk = [name for name, s in event.bulk_s.items() if s > 0 and name in self.models]
        self._pulls.bulk_wanted(bulk, now)
        return self._packing.react(event, now)

    def _runtime_started(self, event: ev.RuntimeStarted, now: float) -> list[Instruction]:
        lane = self.lanes[event.lane]
        refused = self._processes.started(lane, event.kind, now, event.device_bytes)
        return [i for model in refused for i in self._fail_units(model, now)]

    def _load_failed(self, event: ev.LoadFailed, now: float) -> list[Instruction]:
        if self._packing.load_failed(event, now):
            return []
        model = self.models[event.model]
        lane, full = self.lanes[event.lane], event.out_of_memory
        self._residency.load_failed(lane, model, event.reason, now, full=full)
        return self._fail_units(model, now)

    def _runtime_died(self, event: ev.RuntimeDied, now: float) -> list[Instruction]:
        lane = self.lanes[event.lane]
        loading = lane.loading is not None and self.models[lane.loading].spec.kind == event.kind
        computing = lane.computing(event.kind) and not loading
        self._packing.runtime_ended(lane, event.kind)
        out = self._isolation.runtime_died(lane, event.kind, event.reason, now, guilty=computing)
        for model in self._processes.died(lane, event.kind, event.reason, now, computing=computing):
            out += self._fail_units(model, now)
        return out

    def _fail_units(self, model: ModelState, now: float) -> list[Instruction]:
        """Answer what waits for a model that cannot be loaded; nothing where it is elsewhere."""
        if model.state != "failed":
            return []
        name, again_s = model.spec.name, model.failed_until - now
        reason = model.reason or "no reason given"
        error = load_error(name, reason, again_s, unserved=model.unserved).info
        return [i for unit in self.units.of_model(name) for i in self.units.fail(unit, error, now)]

    def _drain(self, now: float) -> list[Instruction]:
        """Withdraw every pull and give back what has not started."""
        self.draining = True
        out = self._packing.drain(now) + self._pulls.withdraw_all()
        return out + [i for unit in self.units.not_started() for i in self.units.give_back(unit)]
