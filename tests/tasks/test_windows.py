from itertools import pairwise

import numpy as np
import pytest

from shoal.tasks.windows import MOST, most_tokens, overlap_of, stitched, windows


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
