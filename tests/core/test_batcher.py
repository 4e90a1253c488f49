import math
from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from shoal.core.batcher import Budget, Shelf
from shoal.core.cost import CostModel
from shoal.core.events import Item, UnitHead
from shoal.core.urgency import PATIENCE_S
from shoal.values import Features

COST = CostModel(0.0, 1e-3, 0.0, 0.0)  # one token, one millisecond
BUDGET = Budget(seconds=0.1, tokens=8192, items=64)


def add(shelf: Shelf, request: str, items: list[Item], **fields: Any) -> None:
    """Put the items of each unit on the shelf."""
    for unit in dict.fromkeys(item.unit for item in items):
        own = [item for item in items if item.unit == unit]
        head = UnitHead(unit, request, "m", Features(1), **({"deadline": 60.0} | fields))
        shelf.add(head, own, 0.0)


def items(unit: str, *lengths: int) -> list[Item]:
    return [Item(unit, index, tokens) for index, tokens in enumerate(lengths)]


def test_fills_up_to_the_predicted_seconds() -> None:
    shelf = Shelf()
    add(shelf, "r", items("u", 40, 40, 40))
    assert [i.index for i in shelf.take(BUDGET, COST)] == [0, 1]
    assert [i.index for i in shelf.take(BUDGET, COST)] == [2]
    assert not shelf
    assert shelf.take(BUDGET, COST) == []


def test_an_item_over_the_budget_runs_alone() -> None:
    shelf = Shelf()
    add(shelf, "r", items("u", 500, 10))
    assert [i.tokens for i in shelf.take(BUDGET, COST)] == [500]
    assert [i.tokens for i in shelf.take(BUDGET, COST)] == [10]


def test_where_the_fixed_cost_is_above_the_budget_items_may_take_as_long_as_that() -> None:
    shelf, slow = Shelf(), CostModel(0.2, 1e-3, 0.0, 0.0)
    add(shelf, "r", items("u", *[30] * 20))
    assert [len(shelf.take(BUDGET, slow)) for _ in range(3)] == [6, 6, 6]


def test_tokens_and_items_bound_a_batch() -> None:
    shelf = Shelf()
    add(shelf, "r", items("u", *[10] * 10))
    assert len(shelf.take(Budget(10.0, 35, 64), COST)) == 3
    assert len(shelf.take(Budget(10.0, 8192, 4), COST)) == 4


def test_a_small_request_goes_into_the_next_batch_beside_a_large_one() -> None:
    shelf = Shelf()
    add(shelf, "large", items("a", *[20] * 512))
    shelf.take(BUDGET, COST)
    add(shelf, "small", items("b", 3))
    assert "b" in {i.unit for i in shelf.take(BUDGET, COST)}


def test_requests_share_a_batch_equally() -> None:
    shelf = Shelf()
    for name in "abcd":
        add(shelf, name, items(name, *[5] * 100))
    counts: Counter[str] = Counter()
    for _ in range(10):
        counts.update(i.unit for i in shelf.take(BUDGET, COST))
    assert max(counts.values()) - min(counts.values()) <= 5


def test_retries_come_first_and_stay_together() -> None:
    shelf = Shelf()
    add(shelf, "r", items("u", 5, 5))
    shelf.retry(items("v", 7, 7, 7))
    assert {i.unit for i in shelf.take(BUDGET, COST)} == {"v"}
    assert {i.unit for i in shelf.take(BUDGET, COST)} == {"u"}


def test_removed_units_leave_their_neighbours() -> None:
    shelf = Shelf()
    add(shelf, "r", items("u", 5, 5))
    add(shelf, "r", items("v", 5))
    shelf.retry([*items("u", 1), *items("w", 1)])
    shelf.remove("u")
    assert len(shelf) == 2
    assert [i.unit for i in shelf.take(BUDGET, COST)] == ["w"]
    assert [i.unit for i in shelf.take(BUDGET, COST)] == ["v"]
    assert not shelf


def test_what_is_due_first_is_known_though_a_unit_of_bulk_waits_for_long() -> None:
    shelf = Shelf()
    add(shelf, "old", items("old", *[5] * 9), klass="bulk")
    assert shelf.due == PATIENCE_S  # nothing else waits
    for number in range(1000):
        add(shelf, "new", items(f"new{number}", 100), published=10.0 + number, deadline=2000.0)
        assert shelf.due == 10.0 + number + PATIENCE_S
        assert [item.unit for item in shelf.take(BUDGET, COST)] == [f"new{number}"]
    assert shelf.due == PATIENCE_S
    shelf.retry(items("again", 5))
    assert shelf.due == -math.inf


def test_units_that_left_do_not_say_when_the_rest_is_due() -> None:
    shelf = Shelf()
    for number in range(3):
        add(shelf, "r", items(f"u{number}", 5), deadline=2000.0, published=1000.0 + number)
    shelf.remove("u0")
    assert shelf.due == 1001.0 + PATIENCE_S
    for number in range(1000):  # cancelled behind one that stays
        add(shelf, "r", items(f"v{number}", 5), deadline=2000.0, published=1100.0)
        shelf.remove(f"v{number}")
    assert shelf.due == 1001.0 + PATIENCE_S
    shelf.suspect("u1", [], one_by_one=False)
    assert shelf.due == 1002.0 + PATIENCE_S


@given(
    st.lists(
        st.tuples(st.sampled_from("abcde"), st.lists(st.integers(1, 400), min_size=1, max_size=9)),
        max_size=30,
    ),
    st.integers(1, 12),
)
def test_every_item_comes_out_once_within_the_budget(
    units: list[tuple[str, list[int]]], most: int
) -> None:
    shelf = Shelf()
    budget = Budget(0.1, 300, most)
    put = []
    for number, (request, lengths) in enumerate(units):
        put += items(f"{request}{number}", *lengths)
        add(shelf, request, items(f"{request}{number}", *lengths))
    assert len(shelf) == len(put)
    taken = []
    while batch := shelf.take(budget, COST):
        assert len(batch) == 1 or (
            len(batch) <= most
            and sum(i.tokens for i in batch) <= 300
            and sum(COST.item_s(i.tokens) for i in batch) <= 0.1 + 1e-9
        )
        taken += batch
    assert sorted(taken, key=repr) == sorted(put, key=repr)
