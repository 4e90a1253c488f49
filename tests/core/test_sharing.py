"""Who shares a batch, who goes first, and how long anybody waits."""

from collections import Counter
from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.core.batcher import BULK_SHARE, Budget, Shelf
from shoal.core.cost import CostModel
from shoal.core.events import Item, UnitHead
from shoal.core.fairness import MAX_PASSED
from shoal.values import Features, TrafficClass

COST = CostModel(0.0, 1e-3, 0.0, 0.0)  # one token, one millisecond
BUDGET = Budget(seconds=0.1, tokens=8192, items=64)
#: What a batch of `BUDGET` holds of items that do not leave much room.
BATCH_S = 0.09


def put(
    shelf: Shelf,
    unit: str,
    *lengths: int,
    request: str = "",
    tenant: str = "",
    priority: int = 0,
    deadline: float = 60.0,
    klass: TrafficClass = "work",
) -> None:
    features = Features(sum(lengths), len(lengths))
    head = UnitHead(
        unit, request or unit, "m", features, deadline, klass, tenant, priority=priority
    )
    shelf.add(head, [Item(unit, index, tokens) for index, tokens in enumerate(lengths)], 0.0)


def batches(shelf: Shelf) -> Iterator[list[Item]]:
    while batch := shelf.take(BUDGET, COST):
        yield batch


def seconds(batch: list[Item]) -> float:
    return sum(COST.item_s(item.tokens) for item in batch)


def units(batch: list[Item]) -> set[str]:
    return {item.unit for item in batch}


def test_tenants_share_by_seconds_however_many_requests_they_send() -> None:
    shelf = Shelf()
    for number in range(50):
        put(shelf, f"a{number}", *[5] * 20, tenant="a")
    put(shelf, "b", *[5] * 100, tenant="b")
    had: Counter[str] = Counter()
    for _ in range(5):
        for item in shelf.take(BUDGET, COST):
            had[item.unit[0]] += item.tokens
    assert abs(had["a"] - had["b"]) <= 20


def test_users_share_only_what_their_key_gets() -> None:
    shelf = Shelf()
    for user in "uvwxyz":
        put(shelf, f"a{user}", *[5] * 100, tenant=f"a/{user}")
    put(shelf, "b", *[5] * 200, tenant="b")
    had: Counter[str] = Counter()
    for _ in range(12):
        for item in shelf.take(BUDGET, COST):
            had[item.unit] += item.tokens
    of_a = [had[f"a{user}"] for user in "uvwxyz"]
    assert abs(sum(of_a) - had["b"]) <= 40
    assert max(of_a) - min(of_a) <= 20


def test_a_higher_priority_goes_first_inside_a_tenant_and_takes_nothing_from_another() -> None:
    shelf = Shelf()
    put(shelf, "low", *[10] * 20, tenant="a")
    put(shelf, "high", *[10] * 20, tenant="a", priority=1)
    put(shelf, "other", *[10] * 20, tenant="b")
    first = shelf.take(BUDGET, COST)
    assert units(first) == {"high", "other"}
    assert 40 <= sum(item.tokens for item in first if item.unit == "other") <= 60


def test_who_has_little_time_left_goes_first_among_equals() -> None:
    shelf = Shelf()
    put(shelf, "patient", *[50] * 4)
    put(shelf, "pressed", 50, 50, deadline=0.2)
    put(shelf, "pressed-more", 90, deadline=0.05)
    order = [item.unit for batch in batches(shelf) for item in batch]
    assert order == ["pressed-more", "pressed", "pressed", *["patient"] * 4]


def test_a_rank_that_is_passed_over_gets_a_turn_in_the_end() -> None:
    shelf = Shelf()
    put(shelf, "low", 10, tenant="a")
    for number in range(20):
        put(shelf, f"high{number}", 90, tenant="a", priority=5)
    waited = next(n for n, batch in enumerate(batches(shelf)) if "low" in units(batch))
    assert MAX_PASSED // 2 <= waited <= MAX_PASSED


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=12),
    st.lists(
        st.lists(st.tuples(st.integers(1, 90), st.integers(0, 3)), min_size=1, max_size=6),
        min_size=40,
        max_size=40,
    ),
    st.booleans(),
)
def test_nobody_waits_longer_than_a_multiple_of_batches_whatever_others_send(
    before: list[int], meanwhile: list[list[tuple[int, int]]], other_tenant: bool
) -> None:
    """What was there before is served, then the victim, in one of `MAX_PASSED` + 1 turns each; with
    others of more importance coming in all the time."""
    shelf = Shelf()
    put(shelf, "before", *before, tenant="a")
    put(shelf, "victim", 10, tenant="a")
    ranks = 4
    bound = (MAX_PASSED + ranks) * (2 + 2 * int(seconds([Item("", 0, t) for t in before]) / 0.05))
    for number, flood in enumerate(meanwhile):
        for index, (tokens, priority) in enumerate(flood):
            tenant = "b" if other_tenant and index % 2 else "a"
            put(shelf, f"{number}-{index}", tokens, *[90] * 3, tenant=tenant, priority=priority)
        if "victim" in units(shelf.take(BUDGET, COST)):
            return
    waited = len(meanwhile)
    for batch in batches(shelf):
        waited += 1
        if "victim" in units(batch):
            break
    assert waited <= bound


def test_bulk_fills_what_interactive_leaves_of_half_a_batch() -> None:
    shelf = Shelf()
    put(shelf, "bulk", *[10] * 50, klass="bulk")
    put(shelf, "hi", 20)
    first = shelf.take(BUDGET, COST)
    assert first[0].unit == "hi"
    assert len(first) > 1
    assert seconds(first) <= BUDGET.seconds * BULK_SHARE
    put(shelf, "large", *[30] * 3)
    assert units(shelf.take(BUDGET, COST)) == {"large"}
    assert not shelf.interactive
    assert all(seconds(batch) <= BUDGET.seconds * BULK_SHARE for batch in batches(shelf))
