import pytest
from typer.testing import CliRunner

from shoal.cli.main import app

NO_NUMBERS = ["", "1_0", " 10 ", "１０", "nan", "inf", "1e999", "ten", "0x10"]
PLACES = [
    ("dead", "show"),
    ("dead", "drop"),
    ("dead", "replay"),
    ("dead", "replay", "1", "--timeout"),
    ("plan", "trace.csv", "--goal-ms"),
    ("plan", "trace.csv", "--tokens"),
    ("sim", "--seeds"),
    ("sim", "--processes"),
    ("sim", "--models"),
    ("encode", "m", "text", "--dimensions"),
    ("encode", "m", "text", "--priority"),
    ("encode", "m", "text", "--timeout"),
]


@pytest.mark.parametrize("text", NO_NUMBERS)
@pytest.mark.parametrize("place", PLACES)
def test_what_is_no_number_is_refused_wherever_one_is_taken(
    place: tuple[str, ...], text: str
) -> None:
    result = CliRunner().invoke(app, [*place, text])
    assert result.exit_code == 2
    assert "is no" in result.output


@pytest.mark.parametrize(
    ("place", "text", "told"),
    [
        (("dead", "show"), "0", "0 is less than 1"),
        (("dead", "replay", "1", "--timeout"), "601", "601 is more than 600"),
        (("encode", "m", "text", "--priority"), "11", "11 is more than 10"),
        (("encode", "m", "text", "--priority"), "-11", "-11 is less than -10"),
    ],
)
def test_bounds_are_told(place: tuple[str, ...], text: str, told: str) -> None:
    result = CliRunner().invoke(app, [*place, text])
    assert result.exit_code == 2
    assert told in result.output
