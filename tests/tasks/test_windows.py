from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.tasks.windows import (
    MOST,
    most_tokens,
    nearest,
    overlap_of,
    stitched,
    windows,
    word_windows,
)


@pytest.mark.parametrize("room", [1, 3, 4, 10, 62, 510])
def test_windows_hold_every_token_and_overlap(room: int) -> None:
    for count in (0, 1, room, room + 1, 2 * room, 5 * room + 3):
        spans = windows(count, room)
        assert spans[0].start == 0
        assert spans[-1].stop == count
        assert all(len(span) <= room for span in spans)
        for left, right in pairwise(spans):
            assert left.stop - right.start == overlap_of(room)
            assert right.stop > left.stop, "each window has something that no other has"


@pytest.mark.parametrize("room", [4, 62, 510])
def test_the_most_tokens_fill_the_most_windows(room: int) -> None:
    assert len(windows(most_tokens(room), room)) == MOST
    assert len(windows(most_tokens(room) + 1, room)) == MOST + 1


def test_stitched_rows_are_one_a_token_from_the_window_that_sees_most_around_it() -> None:
    spans = windows(25, 10)
    assert spans == [range(10), range(8, 18), range(16, 25)]
    # Each row tells its token and its window; two special tokens before and one after.
    rows = [
        np.array([[-1, n], [-1, n], *([token, n] for token in span), [-1, n]])
        for n, span in enumerate(spans)
    ]
    whole = stitched(rows, spans, 2)
    assert whole[:, 0].tolist() == list(range(25))
    assert whole[:, 1].tolist() == [0] * 9 + [1] * 8 + [2] * 8
    (one,) = [stitched(rows[:1], spans[:1], 2)]
    assert one[:, 0].tolist() == list(range(10))


@given(
    st.lists(st.integers(1, 12), max_size=400),
    st.integers(12, 100),
    st.integers(4, 50),
)
def test_windows_of_words_are_whole_and_overlap(
    tokens: list[int], room: int, most_words: int
) -> None:
    ends = np.cumsum(np.array(tokens, np.int64))
    found = word_windows(ends, room, most_words)
    assert len(found) <= MOST
    assert found[0].start == 0
    if len(found) < MOST:
        assert found[-1].stop == len(tokens)
    for window in found:
        assert sum(tokens[window.start : window.stop]) <= room
        assert len(window) <= most_words
    for left, right in pairwise(found):
        assert left.start < right.start <= left.stop < right.stop
        assert sum(tokens[right.start : left.stop]) <= overlap_of(room)


def test_a_word_longer_than_a_window_stands_alone() -> None:
    assert word_windows(np.array([1, 31, 33]), 8, 99) == [range(1), range(1, 2), range(2, 3)]


def test_what_is_nearest_to_each_window_covers_all_once() -> None:
    assert nearest([range(10), range(6, 16), range(12, 20)]) == [
        range(8),
        range(8, 14),
        range(14, 20),
    ]
