"""How workers reach the broker when they pull: every word takes a hop over their connection."""

from __future__ import annotations

from shoal.core import events as ev
from shoal.core.groups import listens_to
from shoal.sim.broker import Broker, Message
from shoal.sim.claims import Claims
from shoal.sim.clock import Clock
from shoal.sim.meter import Meter
from shoal.sim.worker import SimWorker


class PullQueue:
    """The broker's streams, its bucket of claims and its core NATS, as `worker.Queue`."""

    def __init__(self, clock: Clock, broker: Broker, claims: Claims, meter: Meter) -> None:
        self._clock = clock
        self._broker = broker
        self._claims = claims
        self._meter = meter
        self._listeners: dict[ev.Group, list[SimWorker]] = {}

    def listen(self, worker: SimWorker) -> None:
        """From now on it hears what its groups are told."""
        for group in listens_to(worker.name):
            self._listeners.setdefault(group, []).append(worker)

    def pull(
        self, worker: SimWorker, pull: int, model: str, count: int, expires_s: float | None
    ) -> None:
        """Ask for `count` units."""
        worker.up.send(self._broker.pull, worker, pull, model, count, expires_s)

    def withdraw(self, worker: SimWorker, pull: int) -> None:
        """Take back what was not delivered."""
        worker.up.send(self._broker.withdraw, worker, pull)

    def tell(self, worker: SimWorker, told: ev.TellPulled) -> None:
        """Two hops to each of the others of the group."""
        event = ev.PeerPulled(told.model, told.klass, told.pending, told.due)
        worker.up.send(self._told, worker, told.group, event)

    def _told(self, worker: SimWorker, group: ev.Group, event: ev.PeerPulled) -> None:
        hearers = [w for w in self._listeners[group] if w.alive and w is not worker]
        self._meter.told(self._clock.now, len(hearers))
        for other in hearers:
            other.down.send(other.emit, event)

    def nak(self, worker: SimWorker, message: Message, delay_s: float) -> None:
        """Give a unit back."""
        worker.up.send(self._broker.nak, message, delay_s)

    def term(self, worker: SimWorker, message: Message) -> None:
        """Never deliver it again."""
        worker.up.send(self._broker.term, message)

    def reply(self, worker: SimWorker, message: Message) -> None:
        """An answer goes over the broker to the gateway, two hops."""
        unit = message.body
        worker.up.send(worker.down.send, unit.front.replied, message, worker)

    def claim(self, worker: SimWorker, model: str, ttl_s: float) -> None:
        """Ask the bucket."""
        worker.up.send(self._claim, worker, model, ttl_s)

    def _claim(self, worker: SimWorker, model: str, ttl_s: float) -> None:
        got = self._claims.take(model, worker.name, ttl_s)
        worker.down.send(worker.emit, ev.Claimed(model) if got else ev.ClaimRefused(model))

    def unclaim(self, worker: SimWorker, model: str) -> None:
        """Drop the claim."""
        worker.up.send(self._claims.drop, model, worker.name)
