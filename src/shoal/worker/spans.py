"""A unit's hops as trace spans, recorded once it is settled, from the times it carries anyway."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from shoal.worker.stash import Stash

if TYPE_CHECKING:
    from shoal.telemetry.otel import Tracer


class Spans:
    """Records queue, prepare, wait and compute of a unit as children of its request's span."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def settled(self, stash: Stash) -> None:
        """The unit's story is over; tell it, on the wall clock."""
        trace = stash.unit.trace
        if trace is None or stash.started_at is None:
            return
        offset = time.time() - time.monotonic()
        arrived, prepared = stash.arrived_at + offset, stash.prepared_at + offset
        started = stash.started_at + offset
        attributes = {"shoal.unit": stash.unit.id, "shoal.model": stash.unit.model}
        compute = attributes | {"shoal.batch_items": stash.batch_items}
        span = self._tracer.span
        span("queue", trace, arrived - stash.queue_s, arrived, attributes)
        span("prepare", trace, arrived, prepared, attributes)
        span("wait", trace, prepared, started, attributes)
        span("compute", trace, started, started + stash.compute_s, compute)
