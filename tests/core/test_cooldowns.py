"""When a broken model is tried again, by one worker and by many."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.cooldowns import LONGEST_S, STEP_S, Cooldowns


def test_one_worker_waits_twice_as_long_each_time() -> None:
    cooldowns = Cooldowns("w", 60.0)
    now, waited = 0.0, []
    for failures in range(1, 7):
        until = cooldowns.failed("m", failures, now)
        waited.append(until - now)
        now = until
    assert waited == [60.0, 120.0, 240.0, 480.0, LONGEST_S, LONGEST_S]


def test_a_longer_setting_stays_as_it_is_and_none_stays_none() -> None:
    assert [
        Cooldowns("w", 7200.0).failed("m", 1, 1.0),
        Cooldowns("w", 0.0).failed("m", 1, 1.0),
    ] == [
        7201.0,
        1.0,
    ]


def test_failures_within_a_cooldown_are_of_one_round() -> None:
    cooldowns = Cooldowns("w", 60.0)
    assert cooldowns.failed("m", 1, 0.0) == cooldowns.failed("m", 2, 59.0) == 60.0
    assert cooldowns.failed("m", 3, 60.0) == 180.0


def test_others_may_try_what_one_worker_failed_at_and_not_what_two_did() -> None:
    cooldowns = Cooldowns("w", 60.0)
    assert cooldowns.heard("m", "a", 1, 0.0) is None
    until = cooldowns.heard("m", "b", 1, 2.0)
    assert until is not None
    assert 60.0 <= until <= 60.0 + 2 * STEP_S
    assert cooldowns.heard("other", "b", 1, 2.0) is None


def test_what_was_told_before_counts_once() -> None:
    cooldowns = Cooldowns("w", 60.0)
    cooldowns.heard("m", "a", 1, 0.0)
    cooldowns.heard("m", "b", 1, 0.0)
    assert cooldowns.heard("m", "a", 1, 70.0) is None
    until = cooldowns.heard("m", "a", 2, 70.0)
    assert until is not None
    assert until >= 70.0 + 120.0


def test_a_model_that_is_well_anywhere_begins_anew() -> None:
    cooldowns = Cooldowns("w", 60.0)
    assert not cooldowns.well("m")
    cooldowns.heard("m", "a", 1, 0.0)
    assert not cooldowns.well("m"), "one machine's fault is not the model's"
    cooldowns.heard("m", "a", 2, 0.0)
    cooldowns.failed("m", 1, 60.0)
    assert cooldowns.well("m")
    assert cooldowns.failed("m", 1, 70.0) == 130.0


def test_who_is_gone_is_no_witness_and_one_machine_that_starts_anew_never_two() -> None:
    cooldowns, now = Cooldowns("w", 60.0), 0.0
    for start in range(1000):
        assert cooldowns.heard("m", f"broken {start}", 1, now) is None
        cooldowns.gone(f"broken {start}")
        now += 10.0
    cooldowns.heard("m", "a", 1, now)
    until = cooldowns.heard("m", "b", 1, now)
    assert until is not None
    assert until <= now + LONGEST_S + 2 * STEP_S
    cooldowns.gone("a")
    assert cooldowns.well("m"), "it was taken for broken until now"


@pytest.mark.parametrize("workers", [2, 8, 64])
def test_workers_end_a_cooldown_at_moments_of_their_own(workers: int) -> None:
    names = [f"w{number}" for number in range(workers)]
    failed: list[float] = []
    others: list[float] = []
    for name in [*names, *(f"other {name}" for name in names)]:
        cooldowns = Cooldowns(name, 60.0)
        ends = [cooldowns.heard("m", peer, 1, 0.0) for peer in names]
        assert ends[-1] is not None
        (failed if name in names else others).append(ends[-1])
    assert len({*failed, *others}) == 2 * workers
    assert 60.0 <= min(others) <= max(others) <= 60.0 + workers * STEP_S <= min(failed)
    assert max(failed) <= 60.0 + 2 * workers * STEP_S


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0, 1000)), max_size=40))
def test_a_cooldown_ends_and_never_after_the_longest(failures: list[tuple[int, float]]) -> None:
    cooldowns = Cooldowns("w", 60.0)
    counts = dict.fromkeys(range(4), 0)
    now = 0.0
    for worker, pause_s in failures:
        now += pause_s
        counts[worker] += 1
        if worker == 0:
            end: float | None = cooldowns.failed("m", counts[0], now)
        else:
            end = cooldowns.heard("m", f"peer {worker}", counts[worker], now)
        assert end is None or now <= end <= now + LONGEST_S + 8 * STEP_S
