import pytest

from shoal.bench.load import Load, Outcome, generator
from shoal.bench.piped import Helper, HelperDied

NOTHING = Load([("127.0.0.1", 1)], [b"x"], 1)


def test_a_helper_that_fails_is_told_by_name(capfd: pytest.CaptureFixture[str]) -> None:
    with generator() as helper, pytest.raises(HelperDied, match=r"shoal\.bench\.generator ended"):
        helper.ask(NOTHING)  # nobody listens on port 1
    assert "ConnectionRefusedError" in capfd.readouterr().err


def test_a_helper_that_is_none_is_told_by_name(capfd: pytest.CaptureFixture[str]) -> None:
    helper: Helper[Load, Outcome] = Helper("shoal.bench.texts", Outcome)
    with helper, pytest.raises(HelperDied, match="ended with code 0"):
        helper.ask(NOTHING)
