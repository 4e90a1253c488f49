from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from shoal.cli.runtime import app
from shoal.errors import ShoalError
from shoal.runtimes.check.suite import CHECKS
from shoal.runtimes.serve import KINDS
from tests.runtimes.check import rogue

CARD = """
name: mine
source: {dir: .}
family: fake
tasks:
  encode: {dense: {dim: 8, pooling: mean, normalize: true}}
max_tokens: 64
profiles:
  default: {runtime: fake, options: {inputs: text, item_s: 0.001}}
"""


def check(*arguments: Any, code: int = 0) -> Result:
    result = CliRunner().invoke(app, ["check", *map(str, arguments)])
    if isinstance(result.exception, ShoalError):
        raise result.exception
    assert result.exit_code == code, result.output
    return result


def rogue_command(fault: str) -> str:
    return shlex.join([sys.executable, str(Path(rogue.__file__)), fault])


def test_without_a_kind_it_lists_them() -> None:
    lines = check().stdout.splitlines()
    assert [line.split()[0] for line in lines] == [*KINDS]
    assert "fake     installed; tried with a small model" in lines
    assert [each["kind"] for each in json.loads(check("--json").stdout)] == [*KINDS]


def test_one_that_does_what_it_must() -> None:
    lines = check("fake").stdout.splitlines()
    assert [line[15:49].strip() for line in lines[:-1]] == [each.name for each in CHECKS]
    assert not any(line.startswith("failed") for line in lines)
    assert lines[-1] == f"{len(CHECKS) - 2} passed, 0 failed, 2 not applicable"


def test_one_of_another_maker_with_a_model_of_ones_own(tmp_path: Path) -> None:
    """It takes texts, and does not look for the folder that is not there."""
    card = tmp_path / "mine.yaml"
    card.write_text(CARD)
    given = ("--model", "mine", "--catalog", card, "--command", rogue_command("Mixes"))
    outcomes = {
        each["check"]: each for each in json.loads(check("fake", *given, "--json", code=1).stdout)
    }
    failed = [name for name, each in outcomes.items() if each["verdict"] == "failed"]
    assert failed == ["a load that fails", "each item has its answer"]
    assert "from what it is alone" in outcomes["each item has its answer"]["why"]


def test_one_that_does_not_start() -> None:
    result = check("mine", "--command", "sh -c 'echo [no] device; exit 3'", code=1)
    assert "it ended before it said hello, with exit status 3\n[no] device\n" in result.stdout
    assert result.stdout.endswith("0 passed, 1 failed, 0 not applicable\n")


def test_a_kind_that_there_is_not() -> None:
    with pytest.raises(
        ShoalError, match=r"no runtime 'trch' \(did you mean 'torch'\?\); give one of"
    ):
        check("trch")
