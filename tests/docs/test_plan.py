"""The table of `shoal plan` on the simulator's page is what the command says.

Run as a program, it writes the table anew.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shoal.cli.main import app

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "simulator.md"
BLOCK = re.compile(r"(?<=```\n)\$ shoal (plan .*)\n([^`]*)(?=```)")


def shown() -> tuple[str, str]:
    """The command on the page, and what it is said to print."""
    [(command, output)] = BLOCK.findall(PAGE.read_text())
    return command, output


def said(command: str) -> str:
    """What it prints."""
    words = [str(ROOT / word) if "/" in word else word for word in shlex.split(command)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    return result.output


def test_the_table_is_what_the_command_says() -> None:
    """Words and whole numbers to the letter; times may move by a tenth with the policy."""
    command, page = shown()
    was, now = (re.findall(r"[^\s|]+", text) for text in (page, said(command)))
    assert [word for word in now if not _measured(word)] == [
        word for word in was if not _measured(word)
    ], "write it anew: PYTHONPATH=. python tests/docs/test_plan.py"
    measured = [[float(word) for word in words if _measured(word)] for words in (was, now)]
    assert measured[0] == pytest.approx(measured[1], rel=0.1)


def _measured(word: str) -> bool:
    return re.fullmatch(r"\d+\.\d+", word) is not None


if __name__ == "__main__":
    command, output = shown()
    PAGE.write_text(PAGE.read_text().replace(output, said(command)))
