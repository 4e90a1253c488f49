from __future__ import annotations

import pytest

from shoal.runtimes.generating.pace import Pace


@pytest.mark.parametrize(
    ("texts_s", "row_s", "beside", "alone"),
    [
        (0.09, 0.001, 64, 256),  # as much as the texts take
        (0.005, 0.001, 32, 256),
        (0.3, 0.02, 16, 16),
        (0.005, 1e-6, 512, 512),
    ],
)
def test_sizes_are_those_that_add_no_more_than_they_may(
    texts_s: float, row_s: float, beside: int, alone: int
) -> None:
    """Whatever it began with: passes of few rows take nearly as long as those of one."""
    pace = Pace(1e-3, 512)
    for _ in range(30):
        pace.measured(8, 0, texts_s)
        rows = pace.rows(beside=True)
        pace.measured(8, rows, texts_s + rows * row_s)
    assert pace.rows(beside=True) == beside
    for _ in range(30):
        rows = pace.rows(beside=False)
        pace.measured(0, rows, rows * row_s)
    assert pace.rows(beside=False) == alone


def test_no_pass_has_more_than_it_may() -> None:
    assert Pace(1e-9, 5).rows(beside=False) == 5
