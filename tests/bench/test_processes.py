import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from shoal.bench.processes import (
    cpu_s,
    descendants,
    forget_peak,
    machine_s,
    memory_bytes,
    paused,
)

BUSY = "while True: pass"


@contextmanager
def busy() -> Iterator[int]:
    process = subprocess.Popen([sys.executable, "-c", BUSY])
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def until_busy(pid: int) -> None:
    began = cpu_s([pid])
    until(lambda: cpu_s([pid]) > began + 0.02)


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_processor_time_grows_with_work_and_children_are_found() -> None:
    with busy() as pid:
        until_busy(pid)
        assert pid in descendants(os.getpid())
    assert pid not in descendants(os.getpid())
    assert cpu_s([pid]) == 0.0  # gone


def test_paused_processes_go_on_afterwards() -> None:
    with busy() as pid:
        with paused([pid]):
            until(lambda: state(pid) == "T")
        until_busy(pid)


def test_the_machine_is_at_least_as_busy_as_we_are() -> None:
    (busy_before, all_before), own_before = machine_s(), time.process_time()
    while time.process_time() - own_before < 0.3:
        pass
    busy, all_ = machine_s()
    assert busy - busy_before >= 0.2
    assert all_ - all_before >= busy - busy_before - 0.01  # a tick


def test_a_peak_is_forgotten() -> None:
    """The most that this process held, by 64 MB that it holds no longer."""
    held = bytearray(os.urandom(1)) * (64 << 20)
    del held
    before = memory_bytes([os.getpid()], "VmHWM")
    forget_peak([os.getpid()])
    assert memory_bytes([os.getpid()], "VmHWM") < before - (32 << 20)
