from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from shoal.tasks.dtypes import converted
from shoal.values import VectorDType

VECTORS = np.random.default_rng(3).normal(size=(50, 37)).astype(np.float32)
#: Zeros, all above and all below 0, one number alone, one very large.
ODD = np.array([[0, 0, 0], [1, 2, 3], [-3, -2, -1], [0, 0, 5], [1e30, -1, 1e-30]], np.float32)


def restored(made: dict[str, NDArray[Any]]) -> NDArray[np.float32]:
    zero = made.get("v.zero_point", np.zeros(len(made["v"]), np.float32))
    values: NDArray[np.float32] = made["v.scale"][:, None] * (made["v"] - zero[:, None])
    return values


@pytest.mark.parametrize(("dtype", "steps"), [("int8", 127), ("uint8", 255)])
@pytest.mark.parametrize("vectors", [VECTORS, ODD], ids=["normal", "odd"])
def test_whole_numbers_are_restored_within_a_step(
    vectors: NDArray[np.float32], dtype: VectorDType, steps: int
) -> None:
    made = converted("v", vectors, dtype)
    assert made["v"].dtype == dtype
    assert made["v"].shape == vectors.shape
    assert all(array.dtype == "float32" for name, array in made.items() if name != "v")
    low, high = np.minimum(vectors.min(axis=1), 0), np.maximum(vectors.max(axis=1), 0)
    span = np.maximum(high, -low) if dtype == "int8" else high - low
    np.testing.assert_allclose(made["v.scale"], span / steps, rtol=1e-6)
    worst = np.abs(restored(made) - vectors).max(axis=1)
    # Half a step, and as much again where the rounded zero point moves an end.
    assert (worst <= made["v.scale"] * (0.5001 if dtype == "int8" else 1.0001)).all()
    assert (restored(made)[vectors == 0] == 0).all(), "nothing stays nothing"


def test_binary_has_the_first_number_in_the_most_significant_bit() -> None:
    made = converted("v", np.array([[1, -1, 0, 2, -2, -3, -4, 5, 6]], np.float32), "binary")
    assert list(made) == ["v"]
    assert made["v"].tolist() == [[0b10010001, 0b10000000]]
    assert converted("v", VECTORS, "binary")["v"].shape == (50, 5)


def test_floats() -> None:
    assert converted("v", VECTORS, "float32")["v"] is VECTORS
    half = converted("v", np.array([[1e6, 0.5]], np.float32), "float16")["v"]
    assert half.dtype == "float16"
    assert np.isinf(half[0, 0])
    assert half[0, 1] == 0.5
