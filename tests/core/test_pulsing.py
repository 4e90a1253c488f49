"""How often workers pulse in pools of every size, and when they are given up."""

import pytest

from shoal.core import events as ev
from shoal.core.pool import Pool
from shoal.core.pulsing import MOST_PER_S, PULSE_S, Rhythm, period_s, silent_s


@pytest.mark.parametrize("workers", [1, 64, 100, 1000, 10_000])
def test_a_pool_never_pulses_more_often_than_all_can_hear(workers: int) -> None:
    assert workers / period_s(workers) <= MOST_PER_S
    assert silent_s(workers) > 3 * period_s(workers)


@pytest.mark.parametrize("late_s", [-0.001, 0.0, 0.01])
def test_a_worker_of_a_small_pool_pulses_at_every_look(late_s: float) -> None:
    rhythm = Rhythm()
    assert all(rhythm.due("the same", 8, n * (PULSE_S + late_s)) for n in range(20))


def test_in_a_large_pool_only_what_is_new_is_told_at_once() -> None:
    rhythm, looks = Rhythm(), [n * PULSE_S for n in range(1, 33)]
    assert period_s(512) == 4.0
    told = [at for at in looks if rhythm.due("old" if at < 5.0 else "new", 512, at)]
    assert told == [0.5, 4.5, 5.0, 9.0, 13.0]


def test_in_a_large_pool_a_silent_worker_is_missed_later() -> None:
    copies = {"m": ev.PeerModel("resident", 1)}
    small, large = Pool(), Pool()
    small.seen("w0", copies, 0.0)
    for number in range(512):
        large.seen(f"w{number}", copies, 0.0)
    small.forget_silent(3.5)
    large.forget_silent(3.5)
    assert (small.workers, large.workers) == (0, 512)
    large.forget_silent(24.5)
    assert large.workers == 0


def test_what_was_told_before_is_not_news() -> None:
    pool = Pool()
    assert pool.seen("w", {"m": ev.PeerModel("resident", 2)}, 0.0)
    assert not pool.seen("w", {"m": ev.PeerModel("resident", 2)}, 2.0)
    pool.forget_silent(4.0)
    assert pool.copies("m") == 2
    assert pool.seen("w", {"m": ev.PeerModel("resident", 1)}, 4.0)
    assert pool.copies("m") == 1
