"""Boxes of a detector's map."""

from __future__ import annotations

import numpy as np

from shoal.runtimes.onnx.ocr.regions import boxes


def chances(*bars: tuple[int, int, int, int], of: float = 1.0) -> np.ndarray:
    made = np.zeros((100, 200), np.float32)
    for left, top, right, bottom in bars:
        made[top:bottom, left:right] = of
    return made


def test_a_bar_becomes_a_wider_box() -> None:
    """The same one that rapidocr 3.10 makes of it, with OpenCV 5.0 and pyclipper 1.4."""
    (box,) = boxes(chances((50, 40, 120, 50)), 200, 100)
    assert box.tolist() == [[43, 33], [127, 33], [127, 57], [43, 57]]


def test_in_pixels_of_the_picture() -> None:
    (small,) = boxes(chances((50, 40, 120, 50)), 200, 100)
    (large,) = boxes(chances((50, 40, 120, 50)), 400, 300)
    np.testing.assert_allclose(large, small * [2, 3], atol=2)


def test_what_is_faint_or_flat_is_no_text() -> None:
    assert boxes(chances((50, 40, 120, 50), of=0.45), 200, 100) == []
    assert boxes(chances((50, 40, 120, 42)), 200, 100) == []
    assert boxes(chances(), 200, 100) == []


def test_boxes_end_with_the_picture() -> None:
    (box,) = boxes(chances((0, 0, 200, 20)), 200, 100)
    assert box.min() == 0
    assert box.max(0).tolist() == [199, 35]


def test_parts_apart_are_boxes_apart() -> None:
    found = boxes(chances((10, 10, 60, 20), (100, 60, 190, 75)), 200, 100)
    assert len(found) == 2
    assert found[0][0, 1] < found[1][0, 1]
