"""What a reader's rows say, in the order of reading, and how large it sees a picture."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.tasks.ocr import (
    LONGEST,
    TILE,
    Reading,
    black_rows,
    detected_size,
    in_order,
    sent_size,
    tokens_of,
)
from shoal.wire.objects import Extraction, Line

MOST = 2048
SIDES = st.integers(1, 60_000)


def line(text: str, *corners: tuple[int, int]) -> Line:
    return Line(text, 1.0, [list(corner) for corner in corners])


def flat(text: str, left: int, top: int, width: int = 50, height: int = 20) -> Line:
    right, bottom = left + width, top + height
    return line(text, (left, top), (right, top), (right, bottom), (left, bottom))


def read(rows: list[list[float]], **changes: Any) -> Extraction:
    fields: dict[str, Any] = {
        "characters": ("", "a", "b", " "),
        "threshold": 0.5,
        "sizes": ((400, 200),),
        "sent": ((200, 100),),
        "pages": False,
    }
    reading = Reading(**(fields | changes))
    array = np.array(rows, np.float32).reshape(-1, 11)
    return msgspec.msgpack.decode(reading([{"extract": array}]), type=Extraction)


def row(number: int, code: int, chance: float, top: int = 10) -> list[float]:
    return [number, code, chance, 10, top, 60, top, 60, top + 20, 10, top + 20]


def test_characters_become_lines_in_pixels_of_the_callers_picture() -> None:
    found = read([row(0, 1, 0.9), row(0, 2, 0.7), row(1, 2, 1.0, top=50)])
    assert found == Extraction(
        text="ab\nb",
        lines=[
            Line("ab", 0.8, [[20, 20], [120, 20], [120, 60], [20, 60]]),
            Line("b", 1.0, [[20, 100], [120, 100], [120, 140], [20, 140]]),
        ],
        width=400,
        height=200,
    )


def test_lines_that_are_unsure_or_blank_are_left_out() -> None:
    rows = [row(0, 1, 0.4), row(1, 3, 1.0), row(2, 2, 0.6)]
    assert [line.text for line in read(rows).lines or []] == ["b"]
    assert [line.text for line in read(rows, threshold=0.3).lines or []] == ["a", "b"]


def test_a_blank_picture_has_no_lines() -> None:
    assert read([]) == Extraction(text="", lines=[], width=400, height=200)


def test_pages_are_told_one_by_one() -> None:
    found = read([row(0, 1, 1.0)], pages=True)
    assert (found.text, found.lines) == ("a", None)
    assert found.pages is not None
    assert [(page.text, page.width, page.height) for page in found.pages] == [("a", 400, 200)]


def test_rows_are_read_from_the_left() -> None:
    lines = [flat("c", 0, 60), flat("b", 200, 3), flat("a", 0, 0), flat("d", 300, 66)]
    assert [[one.text for one in row] for row in in_order(lines)] == [["a", "b"], ["c", "d"]]


@pytest.mark.parametrize("degrees", [0, 5, 90, 180, 270])
def test_however_the_page_lies(degrees: int) -> None:
    lines = [flat("c", 0, 60), flat("b", 400, 3), flat("a", 0, 0), flat("d", 400, 66)]
    angle = np.deg2rad(degrees)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    turned = [Line(o.text, 1.0, np.rint(np.array(o.box) @ turn.T).tolist()) for o in lines]
    assert [[one.text for one in row] for row in in_order(turned)] == [["a", "b"], ["c", "d"]]


@pytest.mark.parametrize(
    ("size", "sent", "black", "detected"),
    [
        ((800, 900), (800, 900), 0, (800, 896)),
        ((460, 330), (460, 330), 0, (1024, 736)),  # the shorter side grows
        ((3000, 1000), (2000, 666), 0, (2208, 736)),  # the longer side is bounded
        ((10, 20), (30, 60), 0, (736, 1472)),  # tiny pictures are made larger
        ((1000, 40), (1000, 40), 105, (2944, 736)),  # one line lies on black
        ((90, 30), (90, 30), 15, (1088, 736)),
    ],
)
def test_sizes_are_those_of_the_reference(
    size: tuple[int, int], sent: tuple[int, int], black: int, detected: tuple[int, int]
) -> None:
    most = 10_000  # the reference has no bound of pixels
    assert sent_size(*size, most) == sent
    assert black_rows(*sent) == black
    assert detected_size(sent[0], sent[1] + 2 * black, most) == detected


@given(SIDES, SIDES)
def test_no_picture_is_larger_than_its_bound(width: int, height: int) -> None:
    sent = sent_size(width, height, MOST)
    assert max(sent) <= LONGEST
    assert sent[0] * sent[1] <= MOST * TILE**2
    # Sides are rounded to whole tiles, so a strip may be half as large again.
    assert 1 <= tokens_of(*sent, MOST) <= MOST * 1.6
