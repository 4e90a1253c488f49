"""Whose turn it is: exact orders, then shares, bounds and loss in random histories."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.core.fairness import MAX_PASSED, FairQueue, Place, sharers

#: Its request and number, and what it turns out to cost.
Entry = tuple[str, float]


def place(tenant: str, request: str = "r", rank: int = 0, due: float = 0.0) -> Place:
    return Place(sharers(tenant), rank, request, due)


def fill(queue: FairQueue[Entry], where: Place, count: int, cost_s: float = 1.0) -> None:
    name = f"{'/'.join(where.sharers)} {where.request}"
    queue.add(where, [(f"{name}{number}", cost_s) for number in range(count)])


def drain(queue: FairQueue[Entry], count: int | None = None) -> list[str]:
    """The names of all entries in turn, or of so many."""
    return [name for name, _ in take(queue, count)]


def take(queue: FairQueue[Entry], count: int | None = None) -> list[Entry]:
    left = itertools.count() if count is None else iter(range(count))
    return queue.take(lambda entry: None if next(left, None) is None else entry[1])


def pop(queue: FairQueue[Entry]) -> str:
    (name,) = drain(queue, 1)
    return name


def of_tenant(entry: str) -> str:
    return entry.split("/")[0]


def test_a_request_is_first_come_first_served() -> None:
    queue = FairQueue[Entry]()
    fill(queue, place("a/u"), 3)
    assert drain(queue) == ["a/u r0", "a/u r1", "a/u r2"]
    assert not queue
    assert drain(queue) == []


def test_tenants_take_turns_and_one_that_comes_later_is_next() -> None:
    queue = FairQueue[Entry]()
    fill(queue, place("a/u"), 50)
    drain(queue, 10)
    fill(queue, place("b/u"), 2)
    assert [entry[0] for entry in drain(queue, 4)] == list("abab")


def test_turns_are_counted_in_seconds() -> None:
    queue = FairQueue[Entry]()
    fill(queue, place("large/u"), 20, cost_s=4.0)
    fill(queue, place("small/u"), 100, cost_s=1.0)
    taken = Counter(map(of_tenant, drain(queue, 50)))
    assert taken == {"large": 10, "small": 40}


def test_the_cost_that_counts_is_the_one_told_when_an_entry_is_taken() -> None:
    queue = FairQueue[Entry]()
    fill(queue, place("a/u"), 3, cost_s=1.0)
    fill(queue, place("b/u"), 3, cost_s=1.0)
    costs = iter([2.0])
    assert queue.take(lambda entry: next(costs, None)) == [("a/u r0", 1.0)]
    assert drain(queue, 3) == ["b/u r0", "b/u r1", "a/u r1"]


def test_a_tenant_is_a_key_and_a_user_or_either() -> None:
    assert sharers("acme/3f/x") == ("acme", "3f/x")
    assert (sharers(""), sharers("acme"), sharers("/3f")) == (("", ""), ("acme", ""), ("", "3f"))


def test_a_key_shares_before_its_users_do() -> None:
    queue = FairQueue[Entry]()
    for user in range(9):
        fill(queue, place(f"crowd/{user}"), 10)
    fill(queue, place("alone/1"), 10)
    taken = Counter(entry.split()[0] for entry in drain(queue, 18))
    assert taken["alone/1"] == 9
    assert all(taken[f"crowd/{user}"] == 1 for user in range(9))


def test_requests_of_one_user_take_turns() -> None:
    queue = FairQueue[Entry]()
    fill(queue, place("a/u", "x"), 3)
    fill(queue, place("a/u", "y"), 3)
    assert [entry.split()[1] for entry in drain(queue)] == ["x0", "y0", "x1", "y1", "x2", "y2"]


def test_of_requests_that_had_the_same_the_earliest_due_is_next() -> None:
    queue = FairQueue[Entry]()
    for request, due in (("late", 3.0), ("early", 1.0), ("middle", 2.0)):
        fill(queue, place("a/u", request, due=due), 2)
    order = [entry.split()[1] for entry in drain(queue)]
    assert order == ["early0", "middle0", "late0", "early1", "middle1", "late1"]


def test_whose_turn_it_is_stays_so_while_nothing_is_taken() -> None:
    queue = FairQueue[Entry]()
    fill(queue, place("a/u", "cut", due=5.0), 3)
    drain(queue, 1)
    fill(queue, place("a/u", "urgent", due=0.0), 1, cost_s=0.5)
    fill(queue, place("b/u"), 1)
    assert drain(queue, 0) == []
    assert drain(queue, 1) == ["a/u urgent0"]
    assert drain(queue, 2) == ["b/u r0", "a/u cut1"]


def test_who_was_away_gets_no_credit_and_who_was_served_pays() -> None:
    queue = FairQueue[Entry]()
    fill(queue, place("busy/u"), 3)
    fill(queue, place("back/u"), 1, cost_s=3.0)
    assert drain(queue, 2) == ["busy/u r0", "back/u r0"]
    fill(queue, place("back/u"), 1, cost_s=3.0)
    assert drain(queue, 2) == ["busy/u r1", "busy/u r2"]


def test_removing_a_request_gives_its_entries_and_leaves_the_others() -> None:
    queue = FairQueue[Entry]()
    fill(queue, place("a/u", "x"), 2)
    fill(queue, place("a/u", "y"), 2)
    assert queue.remove(place("a/u", "x"), lambda entry: entry[0].endswith("1")) == [
        ("a/u x1", 1.0)
    ]
    assert queue.remove(place("a/u", "x")) == [("a/u x0", 1.0)]
    assert queue.remove(place("a/u", "x")) == []
    assert queue.remove(place("nobody/u")) == []
    assert drain(queue) == ["a/u y0", "a/u y1"]


def test_what_costs_nothing_does_not_go_before_all_others() -> None:
    queue = FairQueue[Entry]()
    fill(queue, place("free/u"), 10, cost_s=0.0)
    fill(queue, place("paid/u"), 1)
    assert "paid/u r0" in drain(queue, 2)


@pytest.mark.parametrize("leave", ["served", "removed"])
def test_nothing_is_kept_of_users_who_left(leave: str) -> None:
    queue = FairQueue[Entry]()
    fill(queue, place("a/stays"), 3000)
    for user in range(2000):
        where = place(f"a/{user}")
        fill(queue, where, 1)
        if leave == "served":
            drain(queue, 2)
        assert len(queue.remove(where)) == (leave == "removed")
    users = queue._root.get("a")
    assert users is not None
    assert len(users) == 1
    assert len(users._heap) <= 2 * len(users) + 17


# --- ranks --------------------------------------------------------------------------------------


def test_a_rank_orders_requests_of_one_user_only() -> None:
    queue = FairQueue[Entry]()
    fill(queue, place("a/u", "low", -1), 2)
    fill(queue, place("a/u", "high", 5), 2)
    fill(queue, place("b/u", "urgent", 10), 2)
    order = drain(queue)
    assert [e for e in order if e[0] == "a"] == ["a/u high0", "a/u high1", "a/u low0", "a/u low1"]
    assert [e[0] for e in order] == list("ababaa")


def test_a_rank_that_is_passed_over_gets_a_ninth_in_the_end() -> None:
    queue = FairQueue[Entry]()
    fill(queue, place("a/u", "low", 0), 10)
    fill(queue, place("a/u", "high", 1), 100)
    order = [entry.split()[1] for entry in drain(queue, 4 * (MAX_PASSED + 1))]
    lows = [number for number, entry in enumerate(order) if entry.startswith("low")]
    assert lows == [n * (MAX_PASSED + 1) - 1 for n in (1, 2, 3, 4)]


def test_a_ninth_is_counted_in_seconds() -> None:
    queue = FairQueue[Entry]()
    fill(queue, place("a/u", "low", 0), 100, cost_s=10.0)
    fill(queue, place("a/u", "high", 1), 1000, cost_s=1.0)
    taken = Counter(entry.split()[1].rstrip("0123456789") for entry in drain(queue, 810))
    assert 9 <= taken["low"] <= 11


# --- random histories ---------------------------------------------------------------------------

COSTS = st.sampled_from([0.0, 0.1, 0.5, 1.0])


@given(st.data())
@settings(max_examples=80, deadline=None)
def test_nothing_is_lost_or_handed_out_twice(data: st.DataObject) -> None:
    queue = FairQueue[int]()
    waiting: dict[int, Place] = {}
    for number in range(data.draw(st.integers(1, 60))):
        action = data.draw(st.sampled_from(["add", "add", "add", "take", "remove"]))
        if action == "add":
            tenant = data.draw(st.sampled_from(["a/1", "a/2", "b/1"]))
            where = place(tenant, data.draw(st.sampled_from("xy")), data.draw(st.integers(-1, 1)))
            queue.add(where, [number])
            waiting[number] = where
        elif action == "take" and waiting:
            costs = data.draw(st.lists(COSTS, max_size=5))
            for entry in queue.take(_in_turn(costs)):
                assert entry == min(n for n, at in waiting.items() if at == waiting[entry])
                del waiting[entry]
        elif waiting:
            where = data.draw(st.sampled_from(list(waiting.values())))
            removed = queue.remove(where)
            assert removed == [n for n, at in waiting.items() if at == where]
            waiting = {n: at for n, at in waiting.items() if at != where}
        assert bool(queue) == bool(waiting)
    assert sorted(queue.take(lambda entry: 1.0)) == sorted(waiting)


def _in_turn(costs: list[float]) -> Callable[[int], float | None]:
    """As many entries as there are costs."""
    left = iter(costs)
    return lambda _: next(left, None)


#: Sums of these are exact, in whatever order.
EXACT = st.sampled_from([2.0**-n for n in range(8)] + [3.0, 5.0])


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_many_taken_at_once_are_those_taken_one_by_one(data: st.DataObject) -> None:
    """Levels are charged once for what they have in a row; nothing may come of that."""
    at_once, one_by_one = FairQueue[Entry](), FairQueue[Entry]()
    places = st.builds(
        place,
        st.sampled_from(["a/1", "a/2", "b/1", "c/1"]),
        st.sampled_from("xyz"),
        st.sampled_from(data.draw(st.sampled_from([[0], [0, 1], [-1, 0, 1]]))),
        st.sampled_from([0.0, 1.0]),
    )
    for number in range(data.draw(st.integers(1, 30))):
        action = data.draw(st.sampled_from(["add", "add", "take", "take", "remove"]))
        where, costs = data.draw(places), data.draw(st.lists(EXACT, min_size=1, max_size=12))
        if action == "add":
            for queue in (at_once, one_by_one):
                queue.add(where, [(f"{number}.{n}", cost_s) for n, cost_s in enumerate(costs)])
        elif action == "take":
            taken = take(at_once, len(costs))
            assert taken == [entry for _ in costs for entry in take(one_by_one, 1)]
        else:
            assert at_once.remove(where) == one_by_one.remove(where)
    rest = take(at_once)
    assert rest == [entry for _ in rest for entry in take(one_by_one, 1)]
    assert not one_by_one


@given(st.lists(st.lists(st.floats(0.01, 1.0), min_size=60, max_size=60), min_size=2, max_size=4))
@settings(max_examples=60, deadline=None)
def test_what_sharers_had_differs_by_one_entry_at_most(costs: list[list[float]]) -> None:
    queue = FairQueue[Entry]()
    for sharer, own in enumerate(costs):
        queue.add(place(f"{sharer}/u"), [(f"{sharer}/", cost_s) for cost_s in own])
    had: Counter[str] = Counter({f"{sharer}": 0 for sharer in range(len(costs))})
    left = Counter({f"{sharer}": len(own) for sharer, own in enumerate(costs)})
    while all(left.values()):
        ((name, cost_s),) = take(queue, 1)
        had[of_tenant(name)] += cost_s  # type: ignore[assignment]
        left[of_tenant(name)] -= 1
        assert max(had.values()) - min(had.values()) <= 1.0 + 1e-9


@given(
    flood=st.lists(st.floats(0.01, 1.0), min_size=300, max_size=400),
    others=st.integers(0, 5),
    before=st.integers(0, 40),
    other_s=st.floats(0.01, 1.0),
)
@settings(max_examples=80, deadline=None)
def test_who_comes_in_waits_for_the_largest_entry_and_one_more_of_each_sharer(
    flood: list[float], others: int, before: int, other_s: float
) -> None:
    """However much a tenant has waiting, and whatever was served before."""
    queue = FairQueue[Entry]()
    queue.add(place("flood/u"), [("flood/", cost_s) for cost_s in flood])
    for other in range(others):
        fill(queue, place(f"other{other}/u"), 50, other_s)
    drain(queue, before)
    queue.add(place("light/u"), [("light/", 0.5)])
    ahead_s: Counter[str] = Counter()
    for name, cost_s in itertools.takewhile(lambda entry: entry[0] != "light/", take(queue)):
        ahead_s[of_tenant(name)] += cost_s  # type: ignore[assignment]
    largest_s = max(*flood, other_s if others else 0.0)
    assert ahead_s["flood"] <= largest_s + max(flood) + 1e-9
    assert all(ahead_s[f"other{n}"] <= largest_s + other_s + 1e-9 for n in range(others))


@given(st.floats(0.1, 1.0), st.booleans(), st.integers(1, 5))
@settings(max_examples=40, deadline=None)
def test_ever_new_sharers_keep_no_old_one_from_its_turn(
    new_s: float, users: bool, at_once: int
) -> None:
    """With as many new ones as entries are taken; with old ones that wait with more than one."""
    queue = FairQueue[Entry]()
    fill(queue, place("a/old", "old"), 20)

    def come(number: int) -> None:
        where = place(f"a/{number}", "new") if users else place("a/old", f"new{number}")
        fill(queue, where, 1, new_s)

    for number in range(at_once):
        come(number)
    taken = []
    for number in range(at_once, 400):
        taken.append(pop(queue))
        come(number)
    # Each of those that wait together has its share.
    fair = len(taken) * new_s / (new_s * at_once + 1.0)
    assert sum(" old" in entry for entry in taken) >= min(20, fair / 2)
