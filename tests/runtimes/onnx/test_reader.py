"""From a picture to characters and boxes, with graphs that read coloured bars."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from shoal.errors import ModelLoadFailed
from shoal.runtimes.onnx.ocr import lines
from shoal.runtimes.onnx.ocr.reader import Reader
from shoal.wire.socket import Load

from . import graphs
from .graphs import GREEN, RED, picture


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Reader:
    return Reader(graphs.load(tmp_path_factory.mktemp("m")), 1)


def said(rows: np.ndarray) -> list[str]:
    """Of each line, in the detector's order."""
    ends = np.flatnonzero(np.diff(rows[:, 0])) + 1
    return [
        "".join(graphs.CHARACTERS[int(code)] for code in own[:, 1]) for own in np.split(rows, ends)
    ]


def test_each_line_with_its_box(reader: Reader) -> None:
    rows, computed = reader.read(
        picture(900, 800, ((100, 100, 400, 130), RED), ((500, 300, 800, 330), RED))
    )
    assert said(rows) == ["r", "r"]
    assert rows[0, 3:].reshape(4, 2).min(0) == pytest.approx([80, 80], abs=8)
    assert rows[0, 3:].reshape(4, 2).max(0) == pytest.approx([420, 150], abs=8)
    assert computed >= 900 * 800 // 1024


def test_a_line_on_its_head_begins_at_its_other_end(reader: Reader) -> None:
    bars = ((100, 100, 220, 130), RED), ((220, 100, 700, 130), GREEN)
    rows, _ = reader.read(picture(900, 800, *bars))
    assert said(rows) == ["gr"]
    first, _, third, _ = rows[0, 3:].reshape(4, 2)
    assert first[0] > third[0]
    assert first[1] > third[1]


def test_the_beginning_of_a_long_line_tells_which_way_up_it_stands(reader: Reader) -> None:
    bars = ((100, 100, 400, 130), RED), ((400, 100, 700, 130), GREEN)
    rows, _ = reader.read(picture(900, 800, *bars))
    assert said(rows) == ["rg"]


def test_a_line_that_climbs_is_laid_down(reader: Reader) -> None:
    bars = ((100, 100, 130, 220), GREEN), ((100, 220, 130, 700), RED)
    rows, _ = reader.read(picture(900, 800, *bars))
    assert said(rows) == ["gr"]
    first, second, *_ = rows[0, 3:].reshape(4, 2)
    assert second[1] > first[1] + 500


def test_lines_of_many_widths_are_read_alike_in_any_company(reader: Reader) -> None:
    bars = [((50, 40 * n + 20, 150 + 70 * n, 40 * n + 40), RED) for n in range(10)]
    together, _ = reader.read(picture(900, 800, *bars))
    assert said(together) == ["r"] * 10
    for n, bar in enumerate(bars):
        alone, _ = reader.read(picture(900, 800, bar))
        np.testing.assert_array_equal(alone[:, 1:], together[together[:, 0] == n][:, 1:])


def test_nothing_stands_in_a_blank_picture(reader: Reader) -> None:
    for size in ((1, 1), (30, 400), (900, 800)):
        rows, computed = reader.read(np.full((*size, 3), 255, np.uint8))
        assert rows.shape == (0, 11)
        assert computed > 0


def test_a_single_line_lies_on_black_and_its_box_in_the_picture(reader: Reader) -> None:
    rows, _ = reader.read(picture(600, 40, ((50, 10, 550, 30), RED)))
    corners = rows[:, 3:].reshape(-1, 4, 2)
    assert corners.min() >= 0
    assert (corners.max((0, 1)) <= [600, 40]).all()


def test_passes_are_of_one_width_and_bounded() -> None:
    columns = [320, 352, 320, 4000, *[640] * 7]
    passes = lines._passes(columns)
    assert sorted(place for some in passes for place in some) == list(range(len(columns)))
    for some in passes:
        assert len({columns[place] for place in some}) == 1
        assert len(some) == 1 or sum(columns[place] for place in some) <= lines.PASS_COLUMNS


def test_what_is_said_on_end_is_said_once() -> None:
    codes = [0, 2, 2, 0, 2, 1, 1, 0]
    chances = np.full((len(codes), 3), 0.1, np.float32)
    chances[np.arange(len(codes)), codes] = np.linspace(0.5, 0.85, len(codes))
    found = lines.spelled(chances)
    assert found[:, 0].tolist() == [2, 2, 1]
    assert found[:, 1] == pytest.approx([0.55, 0.7, 0.75])


def test_a_folder_without_its_graphs(tmp_path: Path) -> None:
    load = graphs.load(tmp_path)
    (tmp_path / "angle.onnx").write_bytes(b"no graph")
    with pytest.raises(ModelLoadFailed, match=r"angle\.onnx cannot be read"):
        Reader(load, 1)
    (tmp_path / "detection.onnx").unlink()
    with pytest.raises(ModelLoadFailed, match=r"detection\.onnx cannot be read: No such file"):
        Reader(load, 1)


def test_a_head_that_it_has_not(tmp_path: Path) -> None:
    load = Load("m", str(tmp_path), "ppocr", {"dense": {"head": "dense"}})
    with pytest.raises(ModelLoadFailed, match="head 'dense' is not one of a reader's"):
        Reader(load, 1)
