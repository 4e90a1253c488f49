"""Which workers hear of each other's pulls, in pools of every size."""

import pytest

from shoal.core import events as ev
from shoal.core.groups import LANES, LOOK_S, MOST_GROUPS, Audience, groups_of, listens_to
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
    told, told_widely = (audience("w1", workers).of("m", 0.0)[0] for workers in (64, 30))
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
    assert some.of("m", 0.0)[0] == listens_to("w0")[1]
    pool.lost("w16")
    assert some.of("m", 0.0) == [listens_to("w0")[0]]


def test_nobody_is_told_of_what_nobody_has_or_where_nobody_has_a_choice() -> None:
    pool = Pool()
    some = Audience("w0", 1, pool)
    assert some.of("m", 0.0) == []
    pool.seen("w1", {"m": HERE["m"]}, 0.0)
    assert some.of("m", 0.0) == []
    pool.seen("w1", HERE, 0.0)
    assert some.of("m", 0.0) == [ev.Group(1, 0)]
    assert some.of("else", 0.0) == []
    pool.seen("w1", {"m": HERE["m"], "n": ev.PeerModel("failed", 0)}, 0.0)
    assert some.of("m", 0.0) == []


def test_all_agree_on_the_order_of_groups_and_homes_are_spread() -> None:
    names = [f"m{number}" for number in range(200)]
    held = {name: ev.PeerModel("resident", 1) for name in names}
    workers = [f"w{number}" for number in range(64)]
    groups: dict[ev.Group, Audience] = {}
    for worker in workers:
        pool = Pool()
        for other in workers:
            if other != worker:
                pool.seen(other, held, 0.0)
        some = Audience(worker, 1, pool)
        own = some.of("m0", 0.0)[0]
        first = groups.setdefault(own, some)
        assert [some.aways(0.0)(m) for m in names] == [first.aways(0.0)(m) for m in names]
    places = [sorted(some.aways(0.0)(m) for some in groups.values()) for m in names]
    assert places == [[0, 1, 2, 3]] * len(names)
    at_home = [sum(some.aways(0.0)(m) == 0 for m in names) for some in groups.values()]
    assert min(at_home) > 30


def test_home_and_the_next_group_are_told_where_it_is_much() -> None:
    by_place = {}
    for number in range(64):
        some = audience(f"w{number}", 64)
        by_place[some.aways(0.0)("m")] = some
    own = [by_place[place].of("m", 0.0) for place in range(4)]
    (home,), (second,), (third,), (last,) = own
    assert len({home, second, third, last}) == 4
    assert by_place[0].of("m", 0.0, much=True) == [home, second]
    assert by_place[1].of("m", 0.0, much=True) == [second, home, third]
    assert by_place[3].of("m", 0.0, much=True) == [last, home]


def test_a_group_that_lost_all_copies_is_no_home() -> None:
    """Seen at the next look."""
    pool = Pool()
    names = [f"w{number}" for number in range(1, 64)]
    held = {f"m{number}": HERE["m"] for number in range(20)}
    for name in names:
        pool.seen(name, held, 0.0)
    some = Audience("w0", 1, pool)
    model = next(m for m in held if some.aways(0.0)(m))
    before = [name for name in names if listens_to(name)[2] != listens_to("w0")[2]]
    for name in before:
        pool.seen(name, {"else": ev.PeerModel("resident", 1)}, 1.0)
    assert some.aways(LOOK_S + 1.0)(model) == 0
