import numpy as np
import pytest

from shoal.errors import ModelLoadFailed
from shoal.runtimes.fake.options import options_of
from shoal.runtimes.fake.timetable import seconds_of
from shoal.wire.socket import Load

TABLE = [(10, 0.1), (20, 0.2), (100, 0.6)]


@pytest.mark.parametrize(
    ("tokens", "seconds"),
    [(0, 0.1), (10, 0.1), (15, 0.15), (20, 0.2), (60, 0.4), (100, 0.6), (180, 1.0)],
)
def test_lines_between_points_and_beyond_the_last(tokens: int, seconds: float) -> None:
    assert seconds_of(TABLE, tokens) == pytest.approx(seconds)


def test_one_point_is_a_constant_and_none_is_nothing() -> None:
    assert seconds_of([(10, 0.1)], 500) == 0.1
    assert seconds_of([], 500) == 0.0


def load(table: list[list[float]]) -> Load:
    return Load("m", "", "fake", {}, "auto", 512, {"table": table})


def test_a_models_batches_take_what_its_table_says() -> None:
    options = options_of(load([[10, 0.1], [30, 0.3]]))
    assert options.cost_s(np.array([5, 15])) == pytest.approx(0.2)


@pytest.mark.parametrize("table", [[[20, 0.1], [10, 0.2]], [[10, -0.1]], [["a", 0.1]]])
def test_a_table_that_is_none_is_refused(table: list[list[float]]) -> None:
    with pytest.raises(ModelLoadFailed, match=r"^options: .*table"):
        options_of(load(table))
