from __future__ import annotations

import numpy as np
import pytest

from shoal.catalog.convert.ggml import PACKINGS, unpacked

from .packed import random


@pytest.mark.parametrize("kind", PACKINGS)
def test_every_packing(kind: int) -> None:
    data, values = random(kind, 6 * 32)
    tensor = unpacked(memoryview(b"head" + data), 4, kind, (2, 96), "x")
    assert tensor.shape == (2, 96)
    np.testing.assert_allclose(tensor.read(), values.reshape(2, 96), rtol=1e-6)


@pytest.mark.parametrize(
    ("kind", "shape", "problem"),
    [
        (12, (32,), "x is of ggml type 12; known are 0, 1, 2, 3, 8"),
        (2, (33,), "x has 33 numbers, which is no multiple of 32"),
        (2, (96,), "x passes the end of the file"),
    ],
)
def test_what_cannot_be_unpacked(kind: int, shape: tuple[int, ...], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        unpacked(memoryview(random(2, 64)[0]), 0, kind, shape, "x")
