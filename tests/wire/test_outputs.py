from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from shoal.errors import ProtocolError
from shoal.wire.arrays import Array, to_wire
from shoal.wire.outputs import Output, Row, Sparse, joined, read_outputs, to_wires

DENSE: list[Row] = [np.array([1, 2], np.float32), np.array([3, 4], np.float32)]
RAGGED: list[Row] = [np.ones((2, 3), np.float32), np.zeros((0, 3), np.float32)]
TERMS: list[Row] = [
    Sparse(np.array([5], np.int32), np.array([0.5], np.float32)),
    Sparse(np.array([], np.int32), np.array([], np.float32)),
    Sparse(np.array([1, 9], np.int32), np.array([2, 3], np.float32)),
]


def same(a: Row, b: Row) -> bool:
    if isinstance(a, Sparse) and isinstance(b, Sparse):
        return np.array_equal(a.indices, b.indices) and np.array_equal(a.values, b.values)
    assert isinstance(a, np.ndarray)
    assert isinstance(b, np.ndarray)
    return np.array_equal(a, b) and a.shape == b.shape


@pytest.mark.parametrize(
    ("rows", "ragged"), [(DENSE, False), (DENSE[:1], False), (RAGGED, True), (TERMS, False)]
)
def test_rows_travel_and_come_back_item_by_item(rows: list[Row], ragged: bool) -> None:
    arrays, lengths, indices = to_wires({"x": joined(rows, ragged)})
    found = read_outputs(arrays, lengths, indices, len(rows))["x"]
    assert found.items == len(rows)
    assert all(same(a, b) for a, b in zip(found.rows(), rows, strict=True))


def ints(*values: int) -> Array:
    return to_wire(np.array(values, np.int32))


TWO = to_wire(np.zeros((2, 4), np.float32))


@pytest.mark.parametrize(
    ("values", "lengths", "indices", "said"),
    [
        (TWO, None, None, "has 2 rows"),
        (TWO, ints(1, 1), None, "has lengths of shape"),
        (TWO, ints(1, 1, 1), None, "lengths that add up to 3"),
        (TWO, ints(3, -1, 0), None, "has lengths of shape"),
        (TWO, ints(1, 1, 0), ints(1), "2 values and indices of shape"),
        (TWO, None, ints(1, 2), "has indices and no lengths"),
        (to_wire(np.array(1.0, np.float32)), None, None, "is a single number"),
    ],
)
def test_what_does_not_add_up_is_refused(
    values: Any, lengths: Any, indices: Any, said: str
) -> None:
    by_head = {
        "lengths": {"x": lengths} if lengths else {},
        "indices": {"x": indices} if indices else {},
    }
    with pytest.raises(ProtocolError, match=said):
        read_outputs({"x": values}, by_head["lengths"], by_head["indices"], 3)


def test_an_output_may_be_empty() -> None:
    assert Output(np.zeros((0, 4), np.float32)).items == 0
