"""How much processor time another process has used: what its operating system says of it."""

from __future__ import annotations

import asyncio
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE

#: After so long it is not waited for any more; the next one is asked soon.
_ANSWER_S = 4.0
_UNITS_S = (1.0, 60.0, 3600.0)
_DAY_S = 86400.0
#: Linux's clock of what all threads of a process use (`CPUCLOCK_SCHED` of its posix-timers.h), which
#: clock_getcpuclockid(3) gives for a process.
_CPUCLOCK_SCHED = 2


async def processor_s(pid: int) -> float | None:
    """User and system time, of all threads together; None where the process is gone or nobody tells."""
    if sys.platform != "linux":
        return await told_by_ps(pid)
    try:
        return time.clock_gettime(~pid << 3 | _CPUCLOCK_SCHED)
    except OSError:
        return None


async def told_by_ps(pid: int) -> float | None:
    """The same by the command that POSIX has for it, which also macOS has."""
    try:
        process = await asyncio.create_subprocess_exec(
            "ps", "-o", "time=", "-p", str(pid), stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL
        )
    except OSError:
        return None
    try:
        async with asyncio.timeout(_ANSWER_S):
            told, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return None
    return seconds_of(told.decode(errors="replace"))


def seconds_of(told: str) -> float | None:
    """Of ``[[days-]hours:]minutes:seconds``, the seconds with a fraction or without; None of anything else."""
    days, _, rest = told.strip().rpartition("-")
    parts = rest.replace(",", ".").split(":")
    if not 2 <= len(parts) <= len(_UNITS_S):
        return None
    try:
        clock = sum(
            float(part) * unit for part, unit in zip(reversed(parts), _UNITS_S, strict=False)
        )
        return clock + (int(days) * _DAY_S if days else 0.0)
    except ValueError:
        return None
