import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import pytest
import typer
from typer.testing import CliRunner

from shoal.bench import report
from shoal.bench.__main__ import BENCHMARKS
from shoal.bench.__main__ import app as whole
from shoal.bench.benchmark import Benchmark, Tell, option

DOCS = Path("docs")


class Plan(msgspec.Struct, frozen=True):
    seconds: Annotated[float, option("How long")] = 3.0
    kinds: Annotated[tuple[Literal["a", "b"], ...], option("Among a, b")] = ("a", "b")
    real: Annotated[bool, option("Really")] = True
    own: int = 7


class Result(report.Result, frozen=True):
    plan: Plan

    @property
    def problems(self) -> list[str]:
        return ["too long"] if self.plan.seconds > 5 else []


def measure(plan: Plan, tell: Tell) -> Result:
    tell("measuring")
    return Result(report.this_machine([]), plan)


def command(*arguments: str, code: int = 0) -> str:
    app = typer.Typer()
    quick = Plan(seconds=1.0, kinds=("b",))
    benchmark = Benchmark("Why?", Plan(), measure, lambda r: str(r.plan), quick)
    app.command()(benchmark.command())
    run = CliRunner().invoke(app, arguments)
    assert run.exit_code == code, run.output
    return run.output


def test_flags_change_the_usual_plan_or_the_quick_one() -> None:
    assert str(Plan()) in command()
    assert str(Plan(seconds=2.0, real=False)) in command("--seconds", "2", "--no-real")
    assert str(Plan(seconds=1.0, kinds=("b",))) in command("--quick")
    assert str(Plan(seconds=1.0, kinds=("a",))) in command("--quick", "--kinds", "a")
    for both in (["--kinds", "b,a"], ["--kinds", "b", "--kinds", "a"]):
        assert str(Plan(kinds=("b", "a"))) in command(*both)


def test_only_described_fields_are_options() -> None:
    help_ = command("--help")
    assert "Why?" in help_ and "How long (3.0)" in help_ and "a,b" in help_
    assert "--own" not in help_ and "--plot" not in help_


def test_a_value_that_a_field_does_not_take_is_told() -> None:
    assert "--kinds" in command("--kinds", "c", code=2)


def test_problems_are_told_and_end_with_an_error(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    assert "WRONG: too long" in command("--seconds", "9", "--json", str(out), code=1)
    assert json.loads(out.read_bytes())["plan"]["seconds"] == 9.0


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_is_documented(name: str) -> None:
    assert f"`python -m shoal.bench {name}`" in (DOCS / "performance.md").read_text()
    assert CliRunner().invoke(whole, [name, "--help"]).exit_code == 0


def test_commands_of_the_docs_and_their_options_exist() -> None:
    """All that is written as a command, wherever it is."""
    pages = [*DOCS.glob("*.md"), Path("README.md")]
    found = [
        found
        for page in pages
        for found in re.findall(
            r"python -m shoal\.bench\s+([a-z]+)((?: --?[a-z-]+(?: [^-`\s][^`\s]*)?)*)",
            page.read_text(),
        )
    ]
    assert len(found) > len(BENCHMARKS)
    for name, options in found:
        known = CliRunner().invoke(whole, [name, "--help"], env={"COLUMNS": "200"}).output
        assert all(flag in known for flag in re.findall(r"--[a-z-]+", options)), (name, options)


def test_the_module_is_a_command() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "shoal.bench", "core", "--units", "20", "--models", "1"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "| models | lanes |" in run.stdout
