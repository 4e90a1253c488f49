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
        rows = pace.rows(1, 8)
        pace.measured(8, rows, texts_s + rows * row_s)
    assert pace.rows(1, 8) == beside
    for _ in range(30):
        rows = pace.rows(1, 0)
        pace.measured(0, rows, rows * row_s)
    assert pace.rows(1, 0) == alone


def test_no_pass_has_more_than_it_may() -> None:
    assert Pace(1e-9, 5).rows(1, 0) == 5


@pytest.mark.parametrize(
    ("prompts", "texts", "texts_s", "room_s"),
    [
        (1, 1, 0.02, 0.05),
        (1, 1, 0.09, 0.09),
        (7, 1, 0.02, 0.14),  # each of the seven waits for as long as the one
        (7, 1, 0.09, 0.5),
        (7, 7, 0.09, 0.09),
        (1, 7, 0.09, 0.09),
        (1, 1, 0.9, 0.9),
        (7, 0, 0.02, 0.5),
    ],
)
def test_many_prompts_beside_few_texts_may_add_more(
    prompts: int, texts: int, texts_s: float, room_s: float
) -> None:
    pace = Pace(1e-3, 512)
    pace.measured(texts, 0, texts_s)
    assert pace.room_s(prompts, texts) == pytest.approx(room_s)
