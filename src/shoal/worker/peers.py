"""Pulses of the pool's other workers as the core takes them."""

from __future__ import annotations

from shoal.core import events as ev
from shoal.wire.queue import WorkerPulse


def peer_event(pulse: WorkerPulse) -> ev.PeerSeen | ev.PeerLost:
    """What another worker's pulse means: what it has, or that it leaves."""
    if pulse.draining:
        return ev.PeerLost(pulse.worker)
    models = {
        name: ev.PeerModel(m.state, m.lanes, m.shelf_s, m.bytes, m.load_s, m.pinned)
        for name, m in pulse.models.items()
    }
    return ev.PeerSeen(pulse.worker, models)
