"""`shoal sim`: a small comparison end to end, and what is said of wrong flags."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from shoal.cli.main import app
from shoal.errors import ConfigError


def test_a_comparison_with_a_picture(tmp_path: Path) -> None:
    picture = tmp_path / "knees.svg"
    args = ["sim", "--workload", "one", "--workers", "1", "--device", "cpu", "--seeds", "1"]
    args += ["--rules", "pull,round-robin", "--processes", "2", "--json", "--plot", str(picture)]
    result = CliRunner().invoke(app, args)
    assert result.exit_code == 0, result.output
    rows = msgspec.json.decode(result.stdout)["rows"]
    assert [row["rule"] for row in rows] == ["pull", "round-robin"]
    assert all(row["tokens"] > 0 and row["half_p99_s"] > 0 for row in rows)
    assert rows[0]["gain"] is None
    assert rows[1]["gain"] > 0
    assert picture.read_text().startswith("<?xml")


def test_one_run_at_a_load_measures_as_many_requests_as_asked() -> None:
    args = ["sim", "--workload", "many", "--models", "5", "--workers", "2", "--seeds", "1"]
    args += ["--rules", "pull,round-robin", "--processes", "1", "--load", "0.3"]
    result = CliRunner().invoke(app, [*args, "--requests", "2000", "--json"])
    assert result.exit_code == 0, result.output
    pull, pushed = msgspec.json.decode(result.stdout)["runs"]
    assert pull["cell"]["rule"] == "pull"
    for run in (pull, pushed):
        (outcome,) = run["outcomes"]
        assert outcome["answered"] > 1_800
        assert 0 < outcome["p50_s"] <= outcome["p99_s"] < 0.1


def test_a_given_setting_is_not_searched() -> None:
    args = [
        "sim",
        "--workload",
        "one",
        "--workers",
        "1",
        "--device",
        "cpu",
        "--seeds",
        "1",
        "--json",
    ]
    args += ["--near", "0.9", "--rules", "affinity,pools", "--spread", "2", "--spill-ms", "30"]
    result = CliRunner().invoke(app, args)
    assert result.exit_code == 0, result.output
    planned, pools = msgspec.json.decode(result.stdout)["results"]
    assert (planned["setting"]["spread"], planned["setting"]["spill_s"]) == (2.0, 0.03)
    assert pools["setting"] is None


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--workload", "mani"], "did you mean 'many'"),
        (["--rules", "pul"], "did you mean 'pull'"),
        (["--device", "tpu"], "gpu, cpu"),
        (["--workers", "8,x"], "'x' is no number"),
        (["--load", "0.5", "--plot", "knees.svg"], "none is searched"),
        (["--spread", "2"], "give both"),
        (["--spill-ms", "20"], "give both"),
    ],
)
def test_wrong_flags_are_told(args: list[str], said: str) -> None:
    result = CliRunner().invoke(app, ["sim", *args])
    assert isinstance(result.exception, ConfigError)
    assert said in result.exception.message


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's parent-death signal")
def test_what_computes_ends_with_a_killed_command() -> None:
    code = (
        "import os, time\n"
        "from shoal.sim.table import in_processes\n"
        "for done in in_processes([(os.getpid, ()), (time.sleep, (600,))], 1):\n"
        "    print(done, flush=True)"
    )
    command = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert command.stdout is not None
    computing = int(command.stdout.readline())
    command.send_signal(signal.SIGKILL)
    command.communicate()
    deadline = time.monotonic() + 30.0
    while not _ended(computing):
        assert time.monotonic() < deadline, "it computes on"
        time.sleep(0.05)


def _ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True
