"""Kills on real processes, once each; the benchmark does the same for longer."""

import pytest

from shoal.bench.faults import main


@pytest.mark.timeout(180)
@pytest.mark.parametrize("target", ["worker", "runtime", "broker"])
def test_everything_is_answered_rightly_while_processes_are_killed(
    target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["--only", target, "--kills", "1", "--gap-s", "1"])
    assert code == 0, capsys.readouterr().out
