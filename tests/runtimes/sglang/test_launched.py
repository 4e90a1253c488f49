from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from queue import Queue

import msgspec
import pytest

from shoal.runtimes.sglang.launched import Launched, command_of
from tests.runtimes.sglang.running import DEADLINE_S, load_of, until


def test_a_command_line(tmp_path: Path) -> None:
    load = load_of(tmp_path)
    assert command_of(
        ["python", "-m", "sglang.launch_server", "--enable-lora"], load, "cpu", 7
    ) == [
        *("python", "-m", "sglang.launch_server", "--enable-lora"),
        *("--model-path", str(tmp_path), "--host", "127.0.0.1", "--port", "7", "--device", "cpu"),
    ]
    half = msgspec.structs.replace(load, dtype="bfloat16")
    assert command_of([], half, "cuda:3", 7)[6:] == [
        *("--device", "cuda", "--base-gpu-id", "3", "--dtype", "bfloat16")
    ]
    assert command_of([], load, "cuda", 7)[6:] == ["--device", "cuda"]


def test_its_lines_and_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    died: Queue[str] = Queue()
    script = "import sys; [print(n) for n in range(30)]; sys.exit(4)"
    Launched([sys.executable, "-c", script], died.put)
    why = died.get(timeout=DEADLINE_S)
    assert why.splitlines() == [
        "the SGLang server ended with status 4:",
        *(str(number) for number in range(10, 30)),
    ]
    assert capsys.readouterr().out.splitlines() == [str(number) for number in range(30)]


def test_one_that_is_stopped_did_not_die() -> None:
    died: Queue[str] = Queue()
    launched = Launched(["sleep", "600"], died.put)
    launched.stop()
    assert launched.ended
    assert died.empty()


@pytest.mark.skipif(sys.platform != "linux", reason="needs PR_SET_PDEATHSIG")
def test_it_does_not_outlive_who_started_it() -> None:
    script = """
        import time
        from shoal.runtimes.sglang.launched import Launched

        Launched(["sh", "-c", "echo $$; exec sleep 600"], print)
        time.sleep(600)
    """
    code = "\n".join(line[8:] for line in script.splitlines())
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert _runs(pid)
        parent.send_signal(signal.SIGKILL)
    until(lambda: not _runs(pid), "the end of what it started")


def _runs(pid: int) -> bool:
    """It is there, and not only waiting to be collected."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
