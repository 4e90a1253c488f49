from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shoal.runtimes.candle.passes import passes

LENGTHS = st.lists(st.integers(1, 600), max_size=60)


def test_equal_items_go_together_as_long_as_there_is_room() -> None:
    lengths = np.array([128] * 9, np.int64)
    assert list(passes(lengths, np.arange(9))) == [[0, 1, 2, 3], [4, 5, 6, 7], [8]]


def test_items_of_very_different_lengths_do_not() -> None:
    lengths = np.array([10, 100, 95, 89, 10], np.int64)
    assert list(passes(lengths, np.arange(5))) == [[1, 2], [3], [0, 4]]


def test_what_is_not_fit_is_left_out() -> None:
    lengths = np.array([5, 0, 5], np.int64)
    assert list(passes(lengths, np.array([2], np.int64))) == [[2]]
    assert list(passes(lengths, np.array([], np.int64))) == []


@given(LENGTHS)
def test_every_item_once_and_no_pass_too_large_or_too_empty(drawn: list[int]) -> None:
    lengths = np.array(drawn, np.int64)
    found = list(passes(lengths, np.arange(len(drawn))))
    assert sorted(item for one in found for item in one) == list(range(len(drawn)))
    for one in found:
        longest = lengths[one[0]]
        assert len(one) == 1 or len(one) * longest <= 512
        assert (lengths[one] >= 0.9 * longest).all()
        assert (lengths[one] <= longest).all()
