"""How workers reach the broker when they pull: every word takes a hop over their connection."""

from __future__ import annotations

import msgspec

from shoal.core import events as ev
from shoal.sim.broker import Broker, Message
from shoal.sim.claims import Claims
from shoal.sim.worker import SimWorker


class PullQueue:
    """The broker's streams, its bucket of claims and its core NATS, as `worker.Queue`.

    `workers`: all that hear what one of them tells.
    """

    def __init__(self, broker: Broker, claims: Claims, workers: list[SimWorker]) -> None:
        self._broker = broker
        self._claims = claims
        self._workers = workers

    def pull(
        self, worker: SimWorker, pull: int, model: str, count: int, expires_s: float | None
    ) -> None:
        """Ask for `count` units."""
        worker.up.send(self._broker.pull, worker, pull, model, count, expires_s)

    def withdraw(self, worker: SimWorker, pull: int) -> None:
        """Take back what was not delivered."""
        worker.up.send(self._broker.withdraw, worker, pull)

    def tell(self, worker: SimWorker, told: ev.TellPulled) -> None:
        """Two hops to each of the others."""
        worker.up.send(self._told, worker, ev.PeerPulled(*msgspec.structs.astuple(told)))

    def _told(self, worker: SimWorker, event: ev.PeerPulled) -> None:
        for other in self._workers:
            if other is not worker:
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
