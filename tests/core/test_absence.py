"""No worker: what waits for one, and what is told that none is there."""

from __future__ import annotations

from shoal.core import admission_events as ev
from shoal.core.absence import RETRY_AFTER_S
from shoal.core.admission import Admission
from shoal.core.pulsing import silent_s
from shoal.errors import Unavailable
from tests.core.test_admission import arrived, failure, taken


class Gateway:
    """An admission that hears workers for 30 s after its start before it misses them."""

    def __init__(self) -> None:
        self.machine = Admission(2.0, 1e9, worker_wait_s=30.0)
        self.machine.handle(ev.Listening(), 0.0)
        self._requests = 0

    def hears(self, workers: int, now: float) -> None:
        self.machine.handle(ev.WorkersCounted(workers), now)

    def asked(self, now: float) -> list[ev.Instruction]:
        self._requests += 1
        return self.machine.handle(arrived(f"r{self._requests}"), now)


def test_a_gateway_that_starts_waits_for_its_first_worker() -> None:
    gateway = Gateway()
    assert gateway.asked(0.0) and taken(gateway.asked(29.9))
    gateway.hears(1, 29.95)
    assert taken(gateway.asked(1000.0))


def test_where_nobody_came_that_is_told_at_once_and_what_waits_goes_on_waiting() -> None:
    gateway = Gateway()
    assert taken(gateway.asked(29.0))
    (refused,) = gateway.asked(42.0)
    assert isinstance(refused, ev.Fail)
    assert isinstance(refused.error, Unavailable)
    assert (refused.error.status, refused.error.retry_after_s) == (503, RETRY_AFTER_S)
    assert "for 42 s" in refused.error.message and "shoal worker" in refused.error.message
    assert gateway.machine.units == 1, "the one that was taken in"
    gateway.hears(1, 43.0)
    assert taken(gateway.asked(43.0))


def test_a_worker_that_went_is_waited_for_from_then_on() -> None:
    gateway = Gateway()
    gateway.hears(2, 1.0)
    gateway.hears(0, 500.0)
    gateway.hears(0, 520.0)  # others that drain are heard, too
    assert taken(gateway.asked(529.9))
    assert isinstance(failure(gateway.asked(530.0)), Unavailable)


def test_pulses_that_are_lost_refuse_nobody() -> None:
    """However many, until a worker is taken for gone, and half a minute more."""
    gateway = Gateway()
    gateway.hears(1, 100.0)
    assert taken(gateway.asked(100.0 + silent_s(1) - 0.1))
    gateway.hears(0, 100.0 + silent_s(1))
    assert taken(gateway.asked(100.0 + silent_s(1) + 1.0))
    gateway.hears(1, 110.0)
    assert taken(gateway.asked(100.0 + silent_s(1) + 31.0))


def test_after_the_broker_was_away_workers_have_time_to_be_heard_again() -> None:
    gateway = Gateway()
    gateway.hears(1, 1.0)
    gateway.hears(0, 10.0)
    gateway.machine.handle(ev.Listening(), 300.0)
    assert taken(gateway.asked(329.0))
    assert not taken(gateway.asked(330.0))
