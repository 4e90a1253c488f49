"""Pulses of other workers as the core takes them."""

from shoal.core import events as ev
from shoal.wire.queue import ModelPulse, WorkerPulse
from shoal.worker.peers import peer_event

MODEL = ModelPulse("resident", 2, 1e-6, 1e-5, 0.5, None, 0.01, 100, 2.0, True)


def test_what_a_peer_has() -> None:
    pulse = WorkerPulse("w", "default", "host", ["cpu"], {"m": MODEL})
    expected = {"m": ev.PeerModel("resident", 2, 0.5, 100, 2.0, True)}
    assert peer_event(pulse) == ev.PeerSeen("w", expected)


def test_a_peer_that_drains_has_nothing_any_more() -> None:
    pulse = WorkerPulse("w", "default", "host", ["cpu"], {"m": MODEL}, draining=True)
    assert peer_event(pulse) == ev.PeerLost("w")
