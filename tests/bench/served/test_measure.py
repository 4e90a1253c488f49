import pytest

from shoal.bench.report import this_machine
from shoal.bench.served.asking import Answers, Text
from shoal.bench.served.measure import BARE, OURS, Measured, Plan, Result, Round, measure, table
from shoal.errors import ConfigError


def _round(alone_s: float, together_s: float, prompt_tokens: int = 7, refused: int = 0) -> Round:
    one = Text(0.1, prompt_tokens, 50, "so", refused)
    return Round(Answers(alone_s, [one, one], 0.5), Answers(together_s, [one] * 4, 0.8))


def _result(*bare: Round) -> Result:
    ours = Measured(OURS, [_round(2.0, 1.0), _round(4.0, 2.0)])
    return Result(this_machine([]), Plan(), [ours, Measured(BARE, list(bare))])


def test_ratios_are_of_rounds_that_were_asked_the_same() -> None:
    result = _result(_round(1.0, 2.0), _round(1.0, 1.0))
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table(result).splitlines()
    ][-4:]
    assert [row[:3] for row in rows] == [
        [OURS, "1", "37.5"],
        [BARE, "1", "100"],
        [OURS, "8", "150"],
        [BARE, "8", "150"],
    ]
    assert [row[-2] for row in rows] == ["5.00", "5.00", "4.00", "4.00"]
    assert [row[3] for row in rows] == ["0.38 (0.25 to 0.50)", "", "1.25 (0.50 to 2.00)", ""]
    assert result.problems == []


def test_sides_that_read_other_prompts_are_a_problem() -> None:
    assert _result(_round(1.0, 1.0), _round(1.0, 1.0, prompt_tokens=8)).problems


def test_refusals_are_a_problem() -> None:
    assert _result(_round(1.0, 1.0), _round(1.0, 1.0, refused=1)).problems == [
        f"{BARE} refused 6 times"
    ]


def test_a_card_without_a_gguf_file_takes_no_part() -> None:
    with pytest.raises(ConfigError, match="'minilm' have no GGUF"):
        measure(Plan(model="minilm"), print)
