"""Which workers hear of each other's pulls, in pools of every size."""

import pytest

from shoal.core import events as ev
from shoal.core.groups import LANES, MOST_GROUPS, Audience, groups_of, listens_to
from shoal.core.pool import Pool

HERE = {name: ev.PeerModel("resident", 1) for name in ("m", "n")}


def audience(worker: str, workers: int, lanes: int = 1) -> Audience:
    """Of one of so many workers, which know each other."""
    pool = Pool()
    for number in range(workers):
        if f"w{number}" != worker:
            pool.seen(f"w{number}", HERE, 0.0, lanes)
    return Audience(worker, lanes, pool)


@pytest.mark.parametrize(
    ("workers", "lanes", "groups"),
    [
        (1, 1, 1),
        (16, 16, 1),
        (17, 17, 2),
        (64, 64, 4),
        (256, 256, 16),
        (1000, 1000, 64),
        (8, 64, 2),  # four workers a group are the least
        (1_000_000, 1_000_000, MOST_GROUPS),
    ],
)
def test_groups_have_about_as_many_lanes_in_every_pool(
    workers: int, lanes: int, groups: int
) -> None:
    assert groups_of(workers, lanes) == groups


@pytest.mark.parametrize("workers", [40, 64, 100, 256, 1000])
def test_each_worker_hears_a_bounded_number_and_is_in_one_group(workers: int) -> None:
    names = [f"host-{number:08x}" for number in range(workers)]
    groups = groups_of(workers, workers)
    hearers = [sum(group in listens_to(name) for name in names) for group in parts(groups)]
    assert sum(hearers) == workers
    assert max(hearers) <= 2 * LANES


def parts(groups: int) -> list[ev.Group]:
    return [ev.Group(groups, number) for number in range(groups)]


def test_who_sees_another_size_of_the_pool_is_heard_all_the_same() -> None:
    """A worker that missed half of the others tells more than it must, its own group among them."""
    told, told_widely = audience("w1", 64).of("m"), audience("w1", 30).of("m")
    assert told is not None
    assert told_widely is not None
    assert (told.groups, told_widely.groups) == (4, 2)
    names = [f"w{number}" for number in range(64)]
    near = {name for name in names if told in listens_to(name)}
    far = {name for name in names if told_widely in listens_to(name)}
    assert "w1" in near
    assert near < far


def test_the_group_follows_the_pool() -> None:
    pool = Pool()
    some = Audience("w0", 1, pool)
    for number in range(1, 17):
        pool.seen(f"w{number}", HERE, 0.0)
    assert some.of("m") == listens_to("w0")[1]
    pool.lost("w16")
    assert some.of("m") == listens_to("w0")[0]


def test_nobody_is_told_of_what_nobody_has_or_where_nobody_has_a_choice() -> None:
    pool = Pool()
    some = Audience("w0", 1, pool)
    assert some.of("m") is None
    pool.seen("w1", {"m": HERE["m"]}, 0.0)
    assert some.of("m") is None
    pool.seen("w1", HERE, 0.0)
    assert some.of("m") == ev.Group(1, 0)
    assert some.of("else") is None
    pool.seen("w1", {"m": HERE["m"], "n": ev.PeerModel("failed", 0)}, 0.0)
    assert some.of("m") is None
