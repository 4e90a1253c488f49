"""Parts of a mask and rectangles around them, against scipy and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import ndimage  # type: ignore[import-untyped]

from shoal.runtimes.onnx.ocr.components import parts, smallest_rectangle


@settings(max_examples=200)
@given(arrays(np.bool_, st.tuples(st.integers(1, 12), st.integers(1, 12))))
def test_parts_are_those_of_scipy(mask: np.ndarray) -> None:
    labels, count = ndimage.label(mask, np.ones((3, 3)))
    found = parts(mask)
    assert len(found) == count
    owners = [{int(labels[int(y), int(x)]) for x, y in points} for points in found]
    assert sorted(map(tuple, owners)) == [(n,) for n in range(1, count + 1)]
    for points, (owner,) in zip(found, map(tuple, owners), strict=True):
        rows, columns = np.nonzero(labels == owner)
        assert (points[:, 0].min(), points[:, 0].max()) == (columns.min(), columns.max())
        assert (points[:, 1].min(), points[:, 1].max()) == (rows.min(), rows.max())


@pytest.mark.parametrize("degrees", [0, 17, 45, 80])
def test_a_rectangle_is_found_however_it_lies(degrees: int) -> None:
    angle = np.deg2rad(degrees)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    inside = np.random.default_rng(3).uniform([0, 0], [60, 20], (40, 2))
    corners = np.array([[0, 0], [60, 0], [60, 20], [0, 20]])
    found, *sides = smallest_rectangle(np.concatenate([inside, corners]) @ turn.T)
    assert sorted(sides) == pytest.approx([20, 60])
    expected = corners @ turn.T
    apart = np.linalg.norm(found[:, None] - expected[None], axis=2)
    np.testing.assert_allclose(apart.min(1), 0, atol=1e-9)
    np.testing.assert_allclose(apart.min(0), 0, atol=1e-9)


@pytest.mark.parametrize("points", [[[3, 4]], [[3, 4], [9, 4]], [[1, 1], [2, 2], [3, 3]]])
def test_what_is_flat_has_no_width(points: list[list[int]]) -> None:
    _, along, across = smallest_rectangle(np.array(points, np.float64))
    assert min(along, across) == pytest.approx(0)
