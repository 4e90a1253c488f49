"""Units as they come from the queue: what is held of each, and when it was published by our clock."""

from __future__ import annotations

from shoal.broker.base import Delivery
from shoal.catalog.resolve import Catalog
from shoal.core.brokerclock import BrokerClock
from shoal.tasks.reading import reading_of
from shoal.wire.queue import Unit
from shoal.worker.stash import Stash
from shoal.worker.watch import Watch


class Arrivals:
    """Makes a stash of a unit that is new here. `units`: all that are held."""

    def __init__(self, units: dict[str, Stash], watch: Watch, catalog: Catalog) -> None:
        self._units = units
        self._watch = watch
        self._catalog = catalog
        self._clock = BrokerClock()

    def stash_of(self, unit: Unit, delivery: Delivery, now: float) -> tuple[Stash, float]:
        """What is held of this unit, which may have come before, and when it was published."""
        self._clock.seen(delivery.timestamp_s, now)
        published = self._clock.to_local(delivery.timestamp_s)
        stash = self._units.get(unit.id)
        if stash is None:
            tasks = self._catalog.card(unit.model).tasks
            size = reading_of(unit.params, tasks).unit(unit.item_bytes, len(unit.items))
            queue_s = max(0.0, now - published)
            stash = Stash(unit, size, delivery.ack, delivery.delivered, now, queue_s)
            self._units[unit.id] = stash
            self._watch.arrived(stash)
        return stash, published
