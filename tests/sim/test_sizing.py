"""Advice from traces: enough devices, and why not fewer."""

import csv
import random
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shoal.cli.main import app
from shoal.errors import ConfigError
from shoal.sim.fleet import Fleet, Kind, Size, read_fleet
from shoal.sim.sizing import Question
from shoal.sim.trace import Trace, read_trace

KIND = Kind("small", base_ms=4.0, token_us=20.0, memory_gb=8.0, price=0.5)


def write_trace(path: Path, rate: float, seconds: float = 4.0, models: int = 3) -> Path:
    random_ = random.Random(4)
    at = 0.0
    with path.open("w") as file:
        rows = csv.writer(file)
        rows.writerow(["time", "model", "items", "tokens"])
        while at < seconds:
            at += random_.expovariate(rate)
            rows.writerow([f"{at:.4f}", f"m{random_.randrange(models)}", 1, 100])
    return path


def trace(tmp_path: Path, rate: float, models: int = 3) -> Trace:
    return read_trace(write_trace(tmp_path / "trace.csv", rate, models=models))


def test_more_traffic_needs_more_devices(tmp_path: Path) -> None:
    few = Question(trace(tmp_path, 100.0), Fleet([KIND]), KIND, 0.1).answer()
    many = Question(trace(tmp_path, 800.0), Fleet([KIND]), KIND, 0.1).answer()
    assert few.devices == 1
    assert few.bound == "one is enough"
    assert few.headroom > 1.5
    assert many.devices >= 2
    assert many.bound == "throughput"
    assert many.outcome is not None
    assert many.outcome.late <= 0.01
    # Three models of 100 tokens: no batch can take less than 2 ms a request, all fixed costs saved.
    assert many.devices >= 800 * 100 * 20e-6
    assert many.price == many.devices * 0.5


def test_models_that_do_not_fit_need_more_memory(tmp_path: Path) -> None:
    sizes = {f"m{number}": Size(memory_mb=5000.0, load_s=2.0) for number in range(3)}
    advice = Question(trace(tmp_path, 30.0), Fleet([KIND], sizes), KIND, 0.2).answer()
    assert advice.bound == "memory"
    assert advice.devices == 3


def test_no_number_of_devices_makes_a_batch_shorter(tmp_path: Path) -> None:
    slow = Kind("slow", base_ms=300.0, token_us=20.0, memory_gb=8.0)
    advice = Question(trace(tmp_path, 2.0), Fleet([slow]), slow, 0.1).answer()
    assert (advice.devices, advice.bound) == (0, "latency")


def test_a_trace_with_nothing_to_judge_is_told(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("time,model\n0,a\n2,a\n")
    with pytest.raises(ConfigError, match="longer trace"):
        Question(read_trace(path), Fleet([KIND]), KIND, 0.1).answer()


def test_a_goal_without_end_is_refused(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "trace.csv", 50.0)
    assert CliRunner().invoke(app, ["plan", str(path), "--goal-ms", "inf"]).exit_code == 2


def test_the_command_shows_a_table(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "trace.csv", 50.0)
    fleet = tmp_path / "fleet.toml"
    fleet.write_text(
        '[[kinds]]\nname = "big"\nbase_ms = 3\ntoken_us = 2\nmemory_gb = 24\nprice = 1.2\n'
        '[[kinds]]\nname = "small"\nbase_ms = 4\ntoken_us = 20\nmemory_gb = 8\nprice = 0.5\n'
        "[models.m0]\ncost = 2.0\n"
    )
    result = CliRunner().invoke(app, ["plan", str(path), "--fleet", str(fleet)])
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert "3 models" in lines[0]
    assert [line.split("|")[1].strip() for line in lines[3:]] == ["small", "big"]  # by price


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kinds = 3", "kinds"),
        ('[[kinds]]\nname = "a"\n', "base_ms"),
        ('[[kinds]]\nname = "a"\nbase_ms = 0\ntoken_us = 2\nmemory_gb = 1\n', "'a'"),
        ('[[kinds]]\nname = "a"\nbase_ms = nan\ntoken_us = 2\nmemory_gb = 1\n', "base_ms is nan"),
        ("kinds = []\n[models.a]\nload_s = inf\n", "load_s is inf"),
        ("[[kinds", "fleet.toml"),
    ],
)
def test_a_wrong_fleet_is_told(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=said):
        read_fleet(path)
