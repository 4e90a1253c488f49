"""Which models make room, and what they must be outweighed by."""

from math import inf

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.eviction import (
    PATIENCE_S,
    TURN_LOADS,
    Candidate,
    Policy,
    Standing,
    choose,
    price_s,
)

MB = 10**6


def candidate(
    model: str, mb: int, worth: float, *, wanted: bool = False, used_at: float = 0.0
) -> Candidate:
    return Candidate(model, mb * MB, 0.0, wanted, worth, worth * mb, used_at)


def chosen(candidates: list[Candidate], mb: int, policy: Policy = "gdsf") -> set[str] | None:
    found = choose(candidates, mb * MB, policy)
    return None if found is None else {c.model for c in found}


def test_what_is_worth_least_a_byte_goes_first_and_no_more_than_is_needed() -> None:
    models = [candidate("a", 100, 3.0), candidate("b", 100, 1.0), candidate("c", 100, 2.0)]
    assert chosen(models, 90) == {"b"}
    assert chosen(models, 150) == {"b", "c"}
    assert chosen(models, 310) is None
    assert chosen([], 1) is None


def test_a_model_that_turns_out_unneeded_stays() -> None:
    """By worth the small one would go, and then the large one too, which is enough alone."""
    assert chosen([candidate("small", 10, 1.0), candidate("large", 100, 1.1)], 95) == {"large"}


def test_one_of_the_right_size_goes_rather_than_a_large_one_worth_more_in_all() -> None:
    assert chosen([candidate("large", 1000, 1.0), candidate("right", 50, 2.0)], 40) == {"right"}


def test_what_nobody_wants_goes_before_what_somebody_does() -> None:
    wanted = candidate("wanted", 100, 0.1, wanted=True)
    assert chosen([wanted, candidate("idle", 100, 9.0)], 100) == {"idle"}
    assert chosen([wanted, candidate("idle", 50, 9.0)], 100) == {"wanted"}


def test_by_recency_size_and_worth_do_not_count() -> None:
    models = [
        candidate("old", 10, 9.0, used_at=1.0),
        candidate("older", 500, 8.0, used_at=0.5),
        candidate("new", 100, 1.0, used_at=2.0),
    ]
    assert chosen(models, 100, "lru") == {"older"}
    assert chosen(models, 505, "lru") == {"older", "old"}


def standing(**changes: float) -> Standing:
    fields = {"load_s": 2.0, "demand_s": 0.0, "resident_s": 1000.0, "idle_s": 0.0, "copies": 1}
    return Standing(**fields | {"busy": False} | changes)  # type: ignore[arg-type]


def test_an_idle_model_costs_its_load_less_the_time_it_has_been_idle() -> None:
    assert price_s(standing(), 1.0) == 2.0
    assert price_s(standing(idle_s=1.5), 1.0) == 0.5
    assert price_s(standing(idle_s=60.0), 1.0) == 0.0


def test_a_model_in_demand_has_its_turn_and_then_costs_its_turn_and_its_work() -> None:
    turn_s = TURN_LOADS * 3.0
    assert price_s(standing(demand_s=0.5, resident_s=turn_s - 0.1), 1.0) == inf
    assert price_s(standing(demand_s=0.5, resident_s=turn_s), 1.0) == turn_s + 0.5
    assert price_s(standing(busy=True, resident_s=turn_s), 1.0) == turn_s


def test_a_copy_of_several_costs_one_load_of_each_and_its_share_of_the_work() -> None:
    assert price_s(standing(demand_s=4.0, copies=4), 1.0) == 3.0 + 1.0


@pytest.mark.parametrize("load_s", [0.1, 2.0, 10.0, 100.0])
@pytest.mark.parametrize("demand_s", [0.0, 1.0, 1000.0])
def test_no_model_has_to_wait_longer_than_patience_and_both_loads(
    load_s: float, demand_s: float
) -> None:
    it = standing(load_s=load_s, demand_s=demand_s, busy=True)
    assert price_s(it, 1.0) <= PATIENCE_S + load_s + 1.0


candidates = st.lists(
    st.builds(
        lambda mb, worth, wanted, used_at: candidate("", mb, worth, wanted=wanted, used_at=used_at),
        st.integers(1, 500),
        st.floats(0.0, 10.0),
        st.booleans(),
        st.floats(0.0, 1000.0),
    ),
    max_size=12,
).map(lambda found: [msgspec.structs.replace(c, model=f"m{i}") for i, c in enumerate(found)])


@given(candidates, st.integers(1, 2000))
def test_whatever_is_chosen_is_enough_and_no_model_of_it_could_stay(
    found: list[Candidate], mb: int
) -> None:
    names = chosen(found, mb)
    sizes = {c.model: c.bytes // MB for c in found}
    if names is None:
        assert sum(sizes.values()) < mb
        return
    freed = sum(sizes[name] for name in names)
    assert freed >= mb
    assert all(freed - sizes[name] < mb for name in names)
    idle = [c for c in found if not c.wanted]
    if sum(c.bytes for c in idle) >= mb * MB:
        assert names <= {c.model for c in idle}
