"""One ledger a lane: what is held, what is reserved, what a load is expected to need."""

from shoal.core.memory import (
    HALF_LIFE_S,
    RESERVE,
    UNKNOWN_BYTES,
    UNKNOWN_SHARE,
    Footprint,
    LaneMemory,
)

MB = 10**6


def test_a_footprint_is_an_estimate_then_a_peers_then_measured_here() -> None:
    footprint = Footprint(100 * MB, 1.0)
    assert (footprint.sure, footprint.measured) == (False, False)
    footprint.told(120 * MB, 2.0)
    assert (footprint.bytes, footprint.load_s, footprint.sure) == (120 * MB, 2.0, True)
    footprint.loaded(130 * MB, 4.0)
    footprint.told(110 * MB, 9.0)
    assert (footprint.bytes, footprint.load_s, footprint.measured) == (130 * MB, 4.0, True)


def test_load_seconds_are_a_running_mean_and_bytes_the_latest() -> None:
    footprint = Footprint(0, 1.0)
    footprint.loaded(100 * MB, 10.0)
    footprint.loaded(90 * MB, 2.0)
    assert footprint.bytes == 90 * MB
    assert 2.0 < footprint.load_s < 10.0


def test_a_mere_estimate_leaves_room_for_activations_but_not_beyond_the_budget() -> None:
    memory = LaneMemory(1000 * MB)
    assert memory.needs(Footprint(100 * MB, 1.0)) == 100 * MB + int(100 * MB * RESERVE)
    assert memory.needs(Footprint(100 * MB, 1.0, reserve_bytes=200 * MB)) == 300 * MB
    assert memory.needs(Footprint(900 * MB, 1.0, reserve_bytes=200 * MB)) == 1000 * MB
    assert memory.needs(Footprint(990 * MB, 1.0)) == 1000 * MB
    assert memory.needs(Footprint(1100 * MB, 1.0)) == 1100 * MB
    measured = Footprint(0, 1.0)
    measured.loaded(100 * MB, 1.0)
    assert memory.needs(measured) == 100 * MB


def test_files_correct_an_estimate_and_nothing_that_was_measured() -> None:
    guess, said = Footprint(100 * MB, 1.0), Footprint(100 * MB, 1.0, sure=True)
    for footprint in (guess, said):
        footprint.fetched(150 * MB)
        footprint.fetched(0)
    assert (guess.bytes, guess.sure, said.bytes) == (150 * MB, False, 100 * MB)


def test_a_model_of_which_nothing_is_known_is_tried_on_a_small_lane_too() -> None:
    unknown = Footprint(0, 1.0)
    assert LaneMemory(100 * MB).needs(unknown) == 100 * MB * UNKNOWN_SHARE
    assert LaneMemory(10**12).needs(unknown) == UNKNOWN_BYTES
    assert LaneMemory(None).needs(unknown) == UNKNOWN_BYTES


def test_the_ledger_counts_what_comes_what_is_there_and_what_goes() -> None:
    memory = LaneMemory(1000 * MB)
    memory.reserve("a", 300 * MB)
    memory.reserve("b", 300 * MB)
    memory.loaded("b", 350 * MB, now=1.0)
    assert (memory.used, memory.free) == (650 * MB, 350 * MB)
    memory.release("a")
    memory.release("a")
    assert memory.free == 650 * MB
    assert memory.most == 650 * MB


def test_worth_grows_with_use_and_what_is_not_used_ages() -> None:
    memory = LaneMemory(1000 * MB)
    for name in ("a", "b"):
        memory.loaded(name, 100, now=0.0)
    memory.used_by("a", 9, now=0.0)
    a, b = memory.copies["a"], memory.copies["b"]
    assert a.worth(1.0, 0.0) == 10 * b.worth(1.0, 0.0) == 10 / 100
    memory.clock = 0.2  # something worth more than both was evicted since
    memory.used_by("b", 1, now=1.0)
    assert b.worth(1.0, 1.0) > a.worth(1.0, 1.0)


def test_a_use_counts_half_after_a_while() -> None:
    memory = LaneMemory(1000 * MB)
    memory.loaded("a", 100, now=0.0)
    memory.used_by("a", 99, now=0.0)
    copy = memory.copies["a"]
    assert copy.worth(1.0, HALF_LIFE_S) == copy.worth(1.0, 0.0) / 2
    memory.used_by("a", 1, now=HALF_LIFE_S)
    assert copy.uses == 51.0
