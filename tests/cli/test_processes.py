import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from shoal.cli.processes import (
    AWAY_EXIT,
    MAX_QUICK_DEATHS,
    Backoff,
    Child,
    Keeper,
    ProcessFailed,
)


def python(
    code: str, *args: str, drain_s: float = 5.0, report: Callable[[str], None] = print
) -> Keeper:
    child = Child([sys.executable, "-c", code, *args], dict(os.environ), drain_s)
    return Keeper("child", child, report)


async def until(condition: Callable[[], bool], within_s: float = 30.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        await asyncio.sleep(0.01)


def gone(pid: int) -> bool:
    """True once the process has ended, reaped or not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return True
    return stat.rsplit(")", 1)[1].split()[0] == "Z"


SLEEP = "import time; time.sleep(60)"
# Says that it is up by a file, so that no signal arrives before its handler is set.
STUBBORN = (
    "import pathlib, signal, sys, time\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "pathlib.Path(sys.argv[1]).touch()\n"
    "time.sleep(60)"
)


def test_backoff_grows_and_gives_up_after_quick_deaths() -> None:
    backoff = Backoff()
    delays = [backoff.delay_after(0.1) for _ in range(MAX_QUICK_DEATHS)]
    assert delays == [0.5, 1.0, 2.0, 4.0, None]


def test_backoff_forgets_after_a_long_life() -> None:
    backoff = Backoff()
    backoff.delay_after(0.1)
    assert backoff.delay_after(3600.0) == 0.25
    assert backoff.delay_after(0.1) == 0.5


def test_who_waits_for_another_process_is_never_given_up() -> None:
    backoff = Backoff()
    assert {backoff.delay_after(0.1, AWAY_EXIT) for _ in range(50)} == {0.25}


async def test_a_killed_child_starts_again() -> None:
    reports: list[str] = []
    child = python(SLEEP, report=reports.append)
    await child.start()
    task = asyncio.create_task(child.run())
    first = child.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    await until(lambda: child.pid not in (None, first))
    await child.stop()
    await task
    assert reports == ["child was killed by SIGKILL; starting it again in 0.5 s"]
    assert child.pid is None


async def test_a_wrong_setting_is_not_tried_again() -> None:
    child = python("raise SystemExit(2)")
    await child.start()
    with pytest.raises(ProcessFailed, match="refused its settings"):
        await child.run()


async def test_a_child_that_keeps_dying_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.cli.processes.FIRST_DELAY_S", 0.001)
    reports: list[str] = []
    child = python("raise SystemExit(7)", report=reports.append)
    await child.start()
    with pytest.raises(ProcessFailed, match=r"died 5 times.*exited with code 7"):
        await child.run()
    assert len(reports) == MAX_QUICK_DEATHS - 1


async def test_one_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    child = python(STUBBORN, str(tmp_path / "up"), drain_s=0.2)
    await child.start()
    task = asyncio.create_task(child.run())
    await until((tmp_path / "up").exists)
    await child.stop()
    await task
    assert await child.process.wait() == -signal.SIGKILL


async def test_kill_takes_what_the_child_started(tmp_path: Path) -> None:
    code = (
        "import pathlib, subprocess, sys, time\n"
        "inner = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "pathlib.Path(sys.argv[1]).write_text(str(inner.pid))\n"
        "time.sleep(60)"
    )
    child = python(code, str(tmp_path / "pid"))
    await child.start()
    task = asyncio.create_task(child.run())
    await until(lambda: (tmp_path / "pid").exists() and bool((tmp_path / "pid").read_text()))
    child.kill()
    await task
    await until(lambda: gone(int((tmp_path / "pid").read_text())))


async def test_stop_while_waiting_to_start_again() -> None:
    reports: list[str] = []
    child = python("raise SystemExit(1)", report=reports.append)
    await child.start()
    task = asyncio.create_task(child.run())
    await until(lambda: bool(reports))
    await child.stop()
    await asyncio.wait_for(task, 30)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's parent-death signal")
async def test_children_die_with_a_killed_parent(tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import asyncio, os, pathlib, sys\n"
            "from shoal.cli.processes import Child\n"
            "async def main():\n"
            "    command = [sys.executable, '-c', 'import time; time.sleep(60)']\n"
            "    child = Child(command, dict(os.environ), 5)\n"
            "    await child.start()\n"
            "    pathlib.Path(sys.argv[1]).write_text(str(child.pid))\n"
            "    await asyncio.sleep(60)\n"
            "asyncio.run(main())",
            str(tmp_path / "pid"),
        ]
    )
    await until(lambda: (tmp_path / "pid").exists() and bool((tmp_path / "pid").read_text()))
    pid = int((tmp_path / "pid").read_text())
    parent.kill()
    parent.wait()
    await until(lambda: gone(pid))
