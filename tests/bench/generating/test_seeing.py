from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from shoal.bench.generating import smolvlm
from shoal.bench.generating.seeing import Measured, Plan, Result, Round, measure, table
from shoal.bench.generating.streams import Stream
from shoal.bench.report import this_machine
from shoal.errors import ConfigError
from shoal.runtimes.torch.runtime import TorchRuntime

TINY = smolvlm.Shape(
    vocabulary=64,
    dim=16,
    inner=32,
    layers=2,
    heads=2,
    key_heads=1,
    max_tokens=1024,
    vision_dim=16,
    vision_layers=2,
    vision_heads=2,
    side=16,
    patch=4,
    factor=2,
)


def rows(result: Result) -> list[list[str]]:
    """Cells of each size, as they are told."""
    told = [row for row in table(result).splitlines() if row.startswith("|")][2:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in told]


@pytest.mark.parametrize(("pixels", "squares"), [(1, 1), (512, 1), (513, 5), (1024, 5), (2048, 17)])
def test_pictures_are_cut_into_squares_and_seen_whole(pixels: int, squares: int) -> None:
    assert smolvlm.Shape().squares(pixels) == squares


def test_what_is_written_is_the_model_that_the_runtime_computes(tmp_path: Path) -> None:
    """It checks names and shapes of all tensors."""
    weights = smolvlm.write(tmp_path, TINY)
    assert 1 < (tmp_path / "model.safetensors").stat().st_size / (2 * weights) < 2
    runtime = TorchRuntime(threads=1)
    loaded = runtime.load(smolvlm.load_of(tmp_path, TINY, 2, 600, threads=1))
    assert loaded.bytes > 2 * weights


def test_pauses_before_and_beside_a_picture_are_told_apart() -> None:
    """Neither what came until all had begun, nor the pause in which the last one did."""
    first = Stream(0.0, [0.5, 2.0, 2.1, 2.3, 2.4, 3.2, 3.4])
    second = Stream(0.0, [2.0, 2.1, 2.3, 2.4, 3.2, 3.4])
    about = Stream(2.45, [3.3, 3.4])
    one = Round([first, second, about])
    assert one.without_s == pytest.approx([0.2, 0.1] * 2)
    assert one.beside_s == pytest.approx([0.8, 0.2] * 2)
    result = Result(this_machine([]), Plan(), 1_000_000, [Measured(512, 1, [one])])
    assert result.problems == []
    told = ["512 × 512", "1", "7", "150", "200", "800", "4.00 (4.00 to 4.00)", "0.85"]
    assert rows(result) == [told]
    assert "random weights, 1 million" in table(result)


def test_texts_that_end_before_the_picture_is_seen_are_told() -> None:
    early = Stream(0.0, [0.5, 0.6, 0.7])
    one = Round([early, Stream(0.65, [0.9])])
    result = Result(this_machine([]), Plan(), 1, [Measured(512, 1, [one])])
    assert len(result.problems) == 1


def test_the_command_measures_every_size() -> None:
    plan = Plan(pixels=(16, 32), streams=2, rounds=1, prompt_tokens=4, new_tokens=6, shape=TINY)
    result = measure(plan, lambda _: None)
    assert result.problems == []
    assert [row[:3] for row in rows(result)] == [["16 × 16", "1", "2"], ["32 × 32", "5", "2"]]
    for of in result.measured:
        (one,) = of.rounds
        assert len(one.streams) == 3 and len(one.streams[-1].ids) == 6
        assert all(text.began_s < one.asked_s for text in one.streams[:-1])
        assert one.without_s and one.beside_s


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"pixels": (512,)}, "--pixels: beside a picture of 512 a text may need .* takes 1024"),
        ({"pixels": (0,)}, "--pixels: 0 is too little"),
        ({"streams": 0}, "--streams: 0 is too little"),
        ({"new_tokens": 3}, "--new-tokens: 3 is too little; 4 at least"),
    ],
)
def test_what_cannot_be_measured_is_told(changes: dict[str, object], says: str) -> None:
    plan = msgspec.structs.replace(Plan(pixels=(16,), shape=TINY), **changes)
    with pytest.raises(ConfigError, match=says):
        measure(plan, print)
