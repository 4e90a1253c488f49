from __future__ import annotations

import pytest

from shoal.bench.generating.measure import Measured, Plan, Result, Round, measure, table
from shoal.bench.generating.streams import Asked, Stream, streams
from shoal.bench.report import this_machine
from shoal.bench.runtime import alone
from shoal.errors import ConfigError
from shoal.wire.socket import Load, Loaded


def test_a_stream_knows_its_first_token_and_its_longest_pause() -> None:
    stream = Stream(1.0, [1.5, 1.6, 2.4, 2.5])
    assert stream.first_s == pytest.approx(0.5)
    assert stream.pause_s == pytest.approx(0.8)


def test_pauses_are_those_in_which_a_token_came() -> None:
    stream = Stream(0.0, [0.5, 1.0, 3.0, 3.5])
    assert stream.pauses_s(until_s=3.0) == [0.5]
    assert stream.pauses_s(since_s=3.0) == [2.0, 0.5]


def shown(*sides: Measured, bare: tuple[str, ...] = ()) -> list[list[str]]:
    """Cells of what is told."""
    told = table(Result(this_machine([]), Plan(bare=bare), [*sides]))
    rows = [row for row in told.splitlines() if row.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


ONE = [Stream(0.0, [0.1, 0.2, 0.4, 0.5])]
BESIDE = [Stream(0.0, [0.1, 0.2, 0.3, 0.7, 2.1]), Stream(0.35, [2.0, 9.0])]


def test_pauses_are_of_the_others_since_the_long_prompt_came() -> None:
    side = Measured("torch", 1_000_000, [Round(ONE, ONE * 2, ONE * 3, BESIDE)])
    cells = shown(side)[-1]
    assert cells[:4] == ["torch", "8.00", "16.0", "24.0"]
    assert cells[7:12] == ["200", "1,400", "14.0", "1.65", "1.00"]


def test_a_library_is_compared_round_by_round() -> None:
    ours = Measured("torch", 0, [Round(ONE, ONE * n, ONE * 4, BESIDE) for n in (2, 3, 4)])
    half = [Stream(0.0, [0.5, 1.0])]
    bare = Measured("transformers", 0, [Round(half, half * 2, half * 2, [])] * 3)
    *_, row, _, _, ratios = shown(ours, bare, bare=("transformers",))
    assert row[0] == "transformers"
    assert row[-1] == ""
    assert ratios == [
        "transformers",
        "4.00 (4.00 to 4.00)",
        "6.00 (4.00 to 8.00)",
        "8.00 (8.00 to 8.00)",
    ]


@pytest.mark.parametrize(("until", "problems"), [(2.1, 0), (1.9, 1)])
def test_texts_that_end_before_the_long_prompt_is_read_are_told(
    until: float, problems: int
) -> None:
    beside = [Stream(0.0, [0.1, 0.2, 0.4, until]), Stream(0.3, [2.0])]
    side = Measured("torch", 0, [Round(ONE, ONE, ONE, beside)])
    assert len(Result(this_machine([]), Plan(), [side]).problems) == problems


async def test_texts_beside_the_others_are_called_off_with_them() -> None:
    load = Load(
        "m",
        "",
        "fake",
        {"generate": {"head": "generate"}},
        max_tokens=400,
        sequences=3,
        options={"new_token_s": 0.001},
    )
    asked = [Asked([5, 6], 300, beside=True), Asked([7, 8], 12, after=4), Asked([9], 8)]
    async with alone("fake") as runtime:
        await runtime.ask(load, Loaded)
        found = await streams(runtime, "m", asked, 0)
        assert [len(stream.ids) for stream in found[1:]] == [12, 8]
        assert 4 <= len(found[0].ids) < 300
        (again,) = await streams(runtime, "m", [Asked([7, 8], 12)], 0)
        assert again.ids == found[1].ids


def test_a_card_that_generates_nothing_takes_no_part() -> None:
    with pytest.raises(ConfigError, match="'torch:minilm' generates nothing"):
        measure(Plan(kinds=("torch:minilm",)), print)


def test_a_library_that_is_not_installed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.bench.generating.measure.find_spec", lambda _: None)
    with pytest.raises(ConfigError, match="pip install mistralrs"):
        measure(Plan(bare=("mistralrs",)), print)
