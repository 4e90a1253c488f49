"""Many models on few lanes: the parts that decide it, and what each event means to them.

`room` knows demand, peers and who may go, `placement` chooses, `moves` carries out under `claims`,
`shortage` says what follows where memory does not suffice, `recycle` watches the processes.
`residency` and `processes` below them know loads and restarts only.
"""

from __future__ import annotations

from typing import assert_never

import msgspec

from shoal.core import events as ev
from shoal.core.claims import Claims
from shoal.core.events import Instruction
from shoal.core.eviction import Policy
from shoal.core.lanes import Lane
from shoal.core.models import ModelState
from shoal.core.moves import Moves
from shoal.core.placement import Placement
from shoal.core.pool import Pool
from shoal.core.recycle import Recycle
from shoal.core.residency import Residency
from shoal.core.room import Room
from shoal.core.shortage import Shortage
from shoal.core.strangers import Stranger, Strangers

#: What only packing is told of.
PackingEvent = (
    ev.DemandSeen
    | ev.PeerSeen
    | ev.PeerLost
    | ev.Claimed
    | ev.ClaimRefused
    | ev.Fetched
    | ev.Loaded
    | ev.Evicted
    | ev.StatsSeen
)


class Limits(msgspec.Struct, frozen=True):
    """`policy`: who is evicted; `settle_s`: as in `Placement`; `rss_ceiling`: as in `Recycle`."""

    policy: Policy = "gdsf"
    on_demand: bool = True
    settle_s: float = 0.0
    rss_ceiling: float = 0.0


class Packing:
    """What is resident on the lanes of one worker, and why."""

    def __init__(
        self,
        lanes: dict[str, Lane],
        models: dict[str, ModelState],
        pinned: frozenset[str],
        residency: Residency,
        limits: Limits,
        strangers: Strangers,
    ) -> None:
        self._lanes = lanes
        self._models = models
        self._residency = residency
        self._limits = limits
        self._strangers = strangers
        self._room = Room(lanes, models, pinned, limits.policy)
        self._claims = Claims()
        self._placement = Placement(self._room, limits.settle_s)
        self._shortage = Shortage(residency, self._placement, self._room)
        self._moves = Moves(residency, self._placement, self._room, self._claims)
        self._recycle = Recycle(lanes, models, limits.rss_ceiling)
        self._changed = False

    def react(self, event: PackingEvent, now: float) -> list[Instruction]:
        """Take in what happened; `decide` says what follows, but for what must be done at once."""
        self._changed = True
        match event:
            case ev.DemandSeen():
                self._room.demand.seen(event, now)
            case ev.PeerSeen():
                self._peer_seen(event, now)
            case ev.PeerLost():
                self._room.pool.lost(event.worker)
                self._residency.peers_gone([event.worker])
            case ev.Claimed():
                return self._claims.granted(event.model)
            case ev.ClaimRefused():
                self._claims.refused(event.model)
            case ev.Fetched():
                self._residency.fetched(self._models[event.model], event.bytes, now)
            case ev.Loaded():
                kind = self._models[event.model].spec.kind
                self._recycle.loaded(self._lanes[event.lane], kind, now)
                return self._shortage.loaded(event, now)
            case ev.Evicted():
                self._evicted(event, now)
            case ev.StatsSeen():
                self._recycle.seen(event, now)
            case _:
                assert_never(event)
        return []

    def _peer_seen(self, event: ev.PeerSeen, now: float) -> None:
        if not self._room.pool.seen(event.worker, event.models, now, event.lanes):
            return
        for name, told in event.models.items():
            if told.bytes > 0 and name in self._models:
                self._models[name].footprint.told(told.bytes, told.load_s)
        self._residency.told(event, self.elsewhere, now)

    def _evicted(self, event: ev.Evicted, now: float) -> None:
        lane, model = self._lanes[event.lane], self._models[event.model]
        self._residency.evicted(lane, model)
        self._recycle.evicted(lane, model.spec.kind, now)

    def runtime_ended(self, lane: Lane, kind: str) -> None:
        """A process is gone: the next one's memory is watched anew."""
        self._recycle.ended(lane, kind)

    def load_failed(self, event: ev.LoadFailed, now: float) -> bool:
        """Whether that was all: it was out of memory, and is tried again once there is room.

        A model that could not be let go counts as gone: what it keeps shows as leaked memory.
        """
        self._changed = True
        if event.model in self._lanes[event.lane].evicting:
            self._evicted(ev.Evicted(event.lane, event.model), now)
            return True
        return self._shortage.load_failed(event)

    def relieve(self, lane: Lane, model: str, now: float) -> list[Instruction]:
        """Let go of something idle, as a batch of one item was out of memory."""
        return self._shortage.batch_failed(lane, model, now)

    def drain(self, now: float) -> list[Instruction]:
        """This worker leaves: give up what has not begun, and every claim."""
        return self._moves.stop(now) + self._claims.release_all()

    @property
    def pool(self) -> Pool:
        """What the other workers have."""
        return self._room.pool

    def elsewhere(self, model: str) -> int:
        """How many lanes of other workers have this model."""
        return self._room.pool.copies(model)

    def strangers(self, now: float) -> dict[str, Stranger]:
        """Models with work that this worker will not load, of which others are to hear so."""
        wanted = [name for name in self._room.demand.models() if self._is_strange(name)]
        return self._strangers.look(wanted, self._models.__contains__, self.elsewhere, now)

    def _is_strange(self, name: str) -> bool:
        model = self._models.get(name)
        return model is None or (not self._limits.on_demand and model.state == "absent")

    def decide(self, now: float, *, begin: bool) -> list[Instruction]:
        """Push on what is under way; `begin` anew where something changed or its time has come."""
        out = self._claims.due(now) + self._recycle.decide(now)
        at = self._placement.next_wake()
        look = self._changed or (at is not None and now >= at)
        if look:
            self._residency.peers_gone(self._room.forget_silent(now))
        self._changed = look and not begin
        if self._changed:
            self._placement.put_off()
        return out + self._moves.decide(now, begin=begin and look and self._limits.on_demand)

    def next_wake(self) -> float | None:
        times = [self._claims.next_wake(), self._placement.next_wake(), self._recycle.next_wake()]
        return min((t for t in times if t is not None), default=None)
