"""Whose turn it is: exact orders, then shares, bounds and loss in random histories."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.core.fairness import REMEMBERED_MOST, FairQueue, Place, sharers


def place(tenant: str, request: str = "r", priority: int = 0) -> Place:
    return Place(sharers(tenant), priority, request)


def fill(queue: FairQueue[str], where: Place, count: int, cost_s: float = 1.0) -> None:
    for number in range(count):
        queue.add(where, f"{'/'.join(where.sharers)} {where.request}{number}", cost_s)


def drain(queue: FairQueue[str], count: int | None = None) -> list[str]:
    return [queue.pop() for _ in range(len(queue) if count is None else count)]


def test_a_request_is_first_come_first_served() -> None:
    queue = FairQueue[str]()
    fill(queue, place("a/u"), 3)
    assert queue.seconds == 3.0
    assert drain(queue) == ["a/u r0", "a/u r1", "a/u r2"]
    assert (len(queue), queue.seconds, queue.head()) == (0, 0.0, None)


def test_tenants_take_turns_and_one_that_comes_later_is_next() -> None:
    queue = FairQueue[str]()
    fill(queue, place("a/u"), 50)
    drain(queue, 10)
    fill(queue, place("b/u"), 2)
    assert [entry[0] for entry in drain(queue, 4)] in (list("abab"), list("baba"))


def test_turns_are_counted_in_seconds() -> None:
    queue = FairQueue[str]()
    fill(queue, place("large/u"), 20, cost_s=4.0)
    fill(queue, place("small/u"), 100, cost_s=1.0)
    taken = Counter(entry.split("/")[0] for entry in drain(queue, 50))
    assert taken == {"large": 10, "small": 40}


def test_a_tenant_is_a_key_and_a_user_or_either() -> None:
    assert sharers("acme/3f/x") == ("acme", "3f/x")
    assert (sharers(""), sharers("acme"), sharers("/3f")) == (("", ""), ("acme", ""), ("", "3f"))


def test_a_key_shares_before_its_users_do() -> None:
    queue = FairQueue[str]()
    for user in range(9):
        fill(queue, place(f"crowd/{user}"), 10)
    fill(queue, place("alone/1"), 10)
    taken = Counter(entry.split()[0] for entry in drain(queue, 18))
    assert taken["alone/1"] == 9
    assert all(taken[f"crowd/{user}"] == 1 for user in range(9))


def test_priority_orders_requests_of_one_user_only() -> None:
    queue = FairQueue[str]()
    fill(queue, place("a/u", "low", -1), 2)
    fill(queue, place("a/u", "high", 5), 2)
    fill(queue, place("b/u", "urgent", 10), 2)
    order = drain(queue)
    assert [e for e in order if e[0] == "a"] == ["a/u high0", "a/u high1", "a/u low0", "a/u low1"]
    assert [e[0] for e in order] == list("ababaa")


def test_requests_of_one_user_take_turns() -> None:
    queue = FairQueue[str]()
    fill(queue, place("a/u", "x"), 3)
    fill(queue, place("a/u", "y"), 3)
    assert [entry.split()[1] for entry in drain(queue)] == ["x0", "y0", "x1", "y1", "x2", "y2"]


def test_who_was_away_gets_no_credit_and_who_was_served_pays() -> None:
    queue = FairQueue[str]()
    fill(queue, place("busy/u"), 3)
    fill(queue, place("back/u"), 1, cost_s=3.0)
    assert drain(queue, 2) == ["busy/u r0", "back/u r0"]
    fill(queue, place("back/u"), 1, cost_s=3.0)
    assert drain(queue, 2) == ["busy/u r1", "busy/u r2"]


def test_removing_a_request_gives_its_entries_and_leaves_the_others() -> None:
    queue = FairQueue[str]()
    fill(queue, place("a/u", "x"), 2)
    fill(queue, place("a/u", "y"), 2)
    assert queue.remove(place("a/u", "x"), lambda entry: entry.endswith("1")) == ["a/u x1"]
    assert queue.remove(place("a/u", "x")) == ["a/u x0"]
    assert queue.remove(place("a/u", "x")) == []
    assert queue.remove(place("nobody/u")) == []
    assert drain(queue) == ["a/u y0", "a/u y1"]


def test_what_costs_nothing_does_not_go_before_all_others() -> None:
    queue = FairQueue[str]()
    fill(queue, place("free/u"), 10, cost_s=0.0)
    fill(queue, place("paid/u"), 1)
    assert "paid/u r0" in drain(queue, 2)


def test_an_empty_queue_has_nothing_to_take() -> None:
    with pytest.raises(IndexError):
        FairQueue[str]().pop()


def test_users_that_never_come_back_take_bounded_memory() -> None:
    queue = FairQueue[str]()
    fill(queue, place("a/stays"), 1)
    for user in range(3 * REMEMBERED_MOST):
        fill(queue, place(f"a/{user}"), 1)
        drain(queue, 1)
    inner = queue._root.children["a"]
    assert len(inner.left_s) <= REMEMBERED_MOST  # type: ignore[attr-defined]
    assert len(inner.children) == len(queue)  # type: ignore[attr-defined]
    assert len(inner.heap) <= 2 * len(queue) + 17  # type: ignore[attr-defined]


COSTS = st.sampled_from([0.0, 0.1, 0.5, 1.0])


@given(st.data())
@settings(max_examples=80, deadline=None)
def test_nothing_is_lost_or_handed_out_twice(data: st.DataObject) -> None:
    queue = FairQueue[int]()
    waiting: dict[int, Place] = {}
    for number in range(data.draw(st.integers(1, 60))):
        action = data.draw(st.sampled_from(["add", "add", "add", "pop", "remove"]))
        if action == "add":
            tenant = data.draw(st.sampled_from(["a/1", "a/2", "b/1"]))
            where = place(tenant, data.draw(st.sampled_from("xy")), data.draw(st.integers(-1, 1)))
            queue.add(where, number, data.draw(COSTS))
            waiting[number] = where
        elif action == "pop" and waiting:
            head = queue.head()
            assert queue.pop() == head
            assert head is not None
            assert _is_its_turn(waiting, head)
            del waiting[head]
        elif waiting:
            where = data.draw(st.sampled_from(list(waiting.values())))
            removed = queue.remove(where)
            assert removed == [n for n, at in waiting.items() if at == where]
            waiting = {n: at for n, at in waiting.items() if at != where}
        assert len(queue) == len(waiting)
    assert sorted(drain_numbers(queue)) == sorted(waiting)
    assert queue.seconds == 0.0


def _is_its_turn(waiting: dict[int, Place], head: int) -> bool:
    """First of its request, and nothing of the same user has a higher priority."""
    own = waiting[head]
    first = min(number for number, at in waiting.items() if at == own)
    return first == head and all(
        at.priority <= own.priority for at in waiting.values() if at.sharers == own.sharers
    )


def drain_numbers(queue: FairQueue[int]) -> list[int]:
    return [queue.pop() for _ in range(len(queue))]


@given(
    flood=st.lists(st.floats(0.01, 1.0), min_size=50, max_size=200),
    others=st.integers(0, 5),
    before=st.integers(0, 40),
)
@settings(max_examples=80, deadline=None)
def test_a_flood_delays_another_by_one_entry_of_each_sharer(
    flood: list[float], others: int, before: int
) -> None:
    """However much a tenant has waiting, and whatever was served before."""
    queue = FairQueue[str]()
    for cost_s in flood:
        queue.add(place("flood/u"), "flood", cost_s)
    for other in range(others):
        fill(queue, place(f"other{other}/u"), 50)
    for _ in range(min(before, len(queue))):
        queue.pop()
    queue.add(place("light/u"), "light", 0.5)
    ahead = []
    while (entry := queue.pop()) != "light":
        ahead.append(entry.split("/")[0])
    assert all(count == 1 for count in Counter(ahead).values())
