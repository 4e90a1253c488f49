"""Closeness against figures worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from shoal.bench.zoo.closeness import closeness, equality


def test_cosines_and_largest_numbers_of_rows() -> None:
    ours = [np.array([[1, 0], [3, 4]], np.float32), np.array([[0, 2]], np.float32)]
    theirs = [np.array([[1, 0], [4, 3]], np.float32), np.array([[0, 5]], np.float32)]
    seen = closeness(ours, theirs)
    assert (seen.worst, seen.mean) == pytest.approx((0.96, (1 + 0.96 + 1) / 3))
    assert (seen.most, seen.same, seen.rows) == (3, 2, 3)


def test_other_counts_are_no_comparison() -> None:
    with pytest.raises(ValueError, match=r"\[2, 2\] numbers beside \[1, 2\]"):
        closeness([np.ones((2, 2), np.float32)], [np.ones((1, 2), np.float32)])


def test_texts_are_equal_or_not() -> None:
    said = [np.array([[1], [2]], np.float32), np.array([[3]], np.float32)]
    assert equality(said, said).worst == 1
    seen = equality(said, [said[0], said[0]])
    assert (seen.worst, seen.same, seen.rows) == (0, 1, 2)
