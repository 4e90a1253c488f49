"""Pictures resized and cut out."""

from __future__ import annotations

import numpy as np
import pytest

from shoal.runtimes.onnx.ocr.pixels import cut_out, planes, resized, strips
from tests.worker.media.drawn import picture, pixels

PICTURE = pixels(picture(80, 50))


def box(*corners: tuple[float, float]) -> np.ndarray:
    return np.array(corners, np.float32)


#: OpenCV 5.0's `resize` (bilinear) of `np.arange(12).reshape(2, 2, 3) * 20`.
OPENCV = [
    [[0, 20, 40], [15, 35, 55], [45, 65, 85], [60, 80, 100]],
    [[60, 80, 100], [75, 95, 115], [105, 125, 145], [120, 140, 160]],
    [[120, 140, 160], [135, 155, 175], [165, 185, 205], [180, 200, 220]],
]


def test_resizing_is_opencvs() -> None:
    small = (np.arange(12, dtype=np.uint8) * 20).reshape(2, 2, 3)
    assert resized(small, 4, 3).tolist() == OPENCV
    assert resized(small, 2, 2) is small


def test_an_upright_box_is_a_part_of_the_picture() -> None:
    crop, corners = cut_out(PICTURE, box((10, 20), (60, 20), (60, 40), (10, 40)))
    assert np.array_equal(crop, PICTURE[20:40, 10:60])
    assert corners.tolist() == [[10, 20], [60, 20], [60, 40], [10, 40]]


def test_what_climbs_is_laid_down() -> None:
    crop, corners = cut_out(PICTURE, box((10, 5), (25, 5), (25, 45), (10, 45)))
    assert np.array_equal(crop, np.rot90(PICTURE[5:45, 10:25]))
    assert corners.tolist() == [[25, 5], [25, 45], [10, 45], [10, 5]]


def test_a_sloping_box_is_made_upright() -> None:
    whole = np.full((200, 300, 3), 255, np.uint8)
    y, x = np.mgrid[:200, :300]
    along, across = (x - 50) * 0.8 + (y - 40) * 0.6, (y - 40) * 0.8 - (x - 50) * 0.6
    inside = (along > 0) & (along < 150) & (across > 0) & (across < 50)
    whole[inside & (along < 75)] = (255, 0, 0)
    whole[inside & (along >= 75)] = (0, 255, 0)
    crop, _ = cut_out(whole, box((50, 40), (170, 130), (140, 170), (20, 80)))
    assert crop.shape == (50, 150, 3)
    assert (crop[5:-5, 5:70] == (255, 0, 0)).mean() > 0.99
    assert (crop[5:-5, 80:-5] == (0, 255, 0)).mean() > 0.99


def test_planes_are_blue_first_from_minus_one_to_one() -> None:
    red = np.array([[[255, 0, 51]]], np.uint8)
    assert planes(red)[:, 0, 0] == pytest.approx([-0.6, -1, 1])


def test_strips_are_filled_up_with_gray() -> None:
    laid = strips([PICTURE, PICTURE[:10]], [20, 30], 40, 48)
    assert laid.shape == (2, 3, 48, 40)
    assert not laid[0, :, :, 20:].any()
    assert not laid[1, :, :, 30:].any()
    np.testing.assert_array_equal(laid[0, :, :, :20], planes(resized(PICTURE, 20, 48)))
