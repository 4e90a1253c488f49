from __future__ import annotations

import pytest

from shoal.bench.generating.measure import Measured, Plan, Result, Round, measure, table
from shoal.bench.generating.streams import Stream
from shoal.bench.report import this_machine
from shoal.errors import ConfigError


def test_a_stream_knows_its_first_token_and_its_longest_pause() -> None:
    stream = Stream(1.0, [1.5, 1.6, 2.4, 2.5])
    assert stream.first_s == pytest.approx(0.5)
    assert stream.pause_s == pytest.approx(0.8)


def test_the_long_prompt_is_not_among_those_that_pause() -> None:
    one = [Stream(0.0, [0.1, 0.2, 0.4, 0.5])]
    beside = [Stream(0.0, [0.1, 0.4]), Stream(0.2, [2.0, 9.0])]
    side = Measured("torch", 1_000_000, [Round(one, one * 2, beside)])
    shown = table(Result(this_machine([]), Plan(), [side])).splitlines()[-1]
    cells = [cell.strip() for cell in shown.strip("|").split("|")]
    assert cells[:3] == ["torch", "8.00", "16.0"]
    assert (cells[6], cells[7], cells[8]) == ("200", "300", "1.80")


def test_a_card_that_generates_nothing_takes_no_part() -> None:
    with pytest.raises(ConfigError, match="'torch:minilm' generates nothing"):
        measure(Plan(kinds=("torch:minilm",)), print)
