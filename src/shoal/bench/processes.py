"""What processes of this machine cost, by role: processor time from `/proc`. Linux only.

Decides how a command line tells its role. It must not know what is measured.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# Fields of proc_pid_stat(5), counted from the one after the command's name.
_STATE, _PARENT, _USER_TICKS, _SYSTEM_TICKS = 0, 1, 11, 12

# Fields of the first line of proc_stat(5), after its name.
_IDLE, _WAITING = 3, 4

ROLES = ("gateway", "broker", "worker", "runtime")


def descendants(pid: int) -> list[int]:
    """`pid` and every living process below it."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        fields = _stat(int(folder.name))
        if fields and fields[_STATE] != "Z":
            children.setdefault(int(fields[_PARENT]), []).append(int(folder.name))
    found: list[int] = []
    waiting = [pid]
    while waiting:
        found.append(waiting.pop())
        waiting += children.get(found[-1], [])
    return found


def by_role(pid: int) -> dict[str, list[int]]:
    """The processes of a `shoal serve`, by role; itself is not among them."""
    roles: dict[str, list[int]] = {role: [] for role in ROLES}
    for process in descendants(pid):
        role = _role(_command_line(process))
        if role is not None and process != pid:
            roles[role].append(process)
    return roles


def cpu_s(pids: Iterable[int]) -> float:
    """User and system time of these processes so far, all their threads together."""
    return sum(
        (int(fields[_USER_TICKS]) + int(fields[_SYSTEM_TICKS])) / _TICKS_PER_S
        for fields in map(_stat, pids)
        if fields
    )


def machine_s() -> tuple[float, float]:
    """(seconds in which cores of this machine were busy, seconds of all of them) since it started."""
    ticks = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    idle = ticks[_IDLE] + ticks[_WAITING]
    return (sum(ticks) - idle) / _TICKS_PER_S, sum(ticks) / _TICKS_PER_S


def scheduled_s(pids: Iterable[int]) -> tuple[float, float]:
    """What all threads of these processes ran so far, and how long they were ready and did not run.

    https://docs.kernel.org/scheduler/sched-stats.html#proc-pid-schedstat
    """
    return _scheduled_s(
        file for pid in pids for file in Path(f"/proc/{pid}/task").glob("*/schedstat")
    )


def loops_scheduled_s(pids: Iterable[int]) -> tuple[float, float]:
    """The same of the first threads alone, in which event loops run."""
    return _scheduled_s(Path(f"/proc/{pid}/schedstat") for pid in pids)


def _scheduled_s(files: Iterable[Path]) -> tuple[float, float]:
    ran_ns = waited_ns = 0
    for file in files:
        with contextlib.suppress(OSError):
            ran, waited, _ = file.read_text().split()
            ran_ns, waited_ns = ran_ns + int(ran), waited_ns + int(waited)
    return ran_ns / 1e9, waited_ns / 1e9


def run_first(pids: Iterable[int]) -> None:
    """Let these processes run before all others, as if they had cores of their own; needs root.

    Their threads that yield to event loops still do.
    """
    for pid in pids:
        usual = os.getpriority(os.PRIO_PROCESS, pid)
        for task in Path(f"/proc/{pid}/task").iterdir():
            thread = int(task.name)
            if os.getpriority(os.PRIO_PROCESS, thread) == usual:
                os.setpriority(os.PRIO_PROCESS, thread, -20)


def memory_bytes(pids: Iterable[int], field: str) -> int:
    """``VmRSS``, what these processes hold now, or ``VmHWM``, the most they ever held."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            total += sum(
                int(line.split()[1]) << 10 for line in lines if line.startswith(f"{field}:")
            )
    return total


def forget_peak(pids: Iterable[int]) -> None:
    """Let ``VmHWM`` of these processes start again at what they hold now.

    https://docs.kernel.org/filesystems/proc.html#process-specific-subdirectories
    """
    for pid in pids:
        Path(f"/proc/{pid}/clear_refs").write_text("5")


@contextlib.contextmanager
def paused(pids: Iterable[int]) -> Iterator[None]:
    """Stop these processes for a while (SIGSTOP)."""
    stopped = list(pids)
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)


def _stat(pid: int) -> list[str]:
    """Fields after the name, which may itself hold spaces; none if the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _command_line(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return []


def _role(command: list[str]) -> str | None:
    if any(word.endswith("nats-server") for word in command[:1]):
        return "broker"
    if "shoal.runtimes.serve" in command:
        return "runtime"
    if "shoal" in command:
        return next((role for role in ("gateway", "worker") if role in command), None)
    return None
