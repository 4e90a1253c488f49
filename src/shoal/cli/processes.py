"""Child processes of one machine: started, watched, started again, stopped; none is left behind.

Decides when a process that died starts again and when to give up. It knows nothing of what the
processes do.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable
from typing import Protocol

from shoal.broker.orphans import dying_with_us
from shoal.errors import ShoalError

#: A life shorter than this is a failed start; five of them in a row and the fault is no accident.
QUICK_DEATH_S = 10.0
MAX_QUICK_DEATHS = 5
FIRST_DELAY_S = 0.25
MAX_DELAY_S = 10.0
#: Exit code of a wrong setting: starting again cannot help.
CONFIG_EXIT = 2
#: Exit code of a process that cannot work without another one that is away (EX_TEMPFAIL of
#: sysexits.h): no fault of its own, so it is started again for as long as it takes.
AWAY_EXIT = 75


class ProcessFailed(ShoalError):
    """A child process keeps dying."""

    code = "process_failed"


class Process(Protocol):
    """What can be kept alive. It leads a process group of its own, with whatever it starts."""

    @property
    def pid(self) -> int | None: ...

    async def start(self) -> None:
        """Start it, the first time or again after an exit."""

    async def wait(self) -> int:
        """Wait for its exit; the code, or the negative number of the signal that ended it."""

    async def stop(self) -> None:
        """End it in good order, within a bounded time; harmless if it is not running."""


class Child:
    """A program with its environment. `drain_s`: how long it may take to end after SIGTERM."""

    def __init__(self, command: list[str], env: dict[str, str], drain_s: float) -> None:
        self._command = command
        self._env = env
        self._drain_s = drain_s
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    async def start(self) -> None:
        """Start it, to die with us whatever happens to us."""
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            env=self._env,
            stdin=asyncio.subprocess.DEVNULL,
            # A group of its own: Ctrl-C in the terminal must reach only us, who stop in order.
            process_group=0,
            # Not SIGTERM: the broker goes at the same moment, so there is nobody to drain to, and a
            # process that hangs would stay.
            preexec_fn=dying_with_us(signal.SIGKILL),
        )

    async def wait(self) -> int:
        """Wait for its exit."""
        return await self._process.wait() if self._process else 0

    async def stop(self) -> None:
        """SIGTERM; when `drain_s` is over SIGKILL, to all it started too."""
        if self._process is None or self._process.returncode is not None:
            return
        self._process.terminate()
        try:
            await asyncio.wait_for(self._process.wait(), self._drain_s)
        except TimeoutError:
            kill_group(self._process.pid)
            await self._process.wait()


class Backoff:
    """When a process that died may start again."""

    def __init__(self) -> None:
        self._quick = 0

    def delay_after(self, lived_s: float, code: int = 1) -> float | None:
        """Seconds to wait before the next start; None after too many quick deaths in a row."""
        if code == AWAY_EXIT:
            return FIRST_DELAY_S
        self._quick = self._quick + 1 if lived_s < QUICK_DEATH_S else 0
        if self._quick >= MAX_QUICK_DEATHS:
            return None
        return float(min(MAX_DELAY_S, FIRST_DELAY_S * 2**self._quick))


class Keeper:
    """Keeps one process alive until `stop`; `report` is told of each death in a sentence."""

    def __init__(self, name: str, process: Process, report: Callable[[str], None]) -> None:
        self.name = name
        self.process = process
        self._report = report
        self._stopping = asyncio.Event()
        self._ended = asyncio.Event()
        self._ended.set()
        self._alive = False
        self._started_at = 0.0

    @property
    def pid(self) -> int | None:
        return self.process.pid if self._alive else None

    async def start(self) -> None:
        """Start it once; `run` then watches it. Raises what the process' start raises."""
        await self.process.start()
        self._alive, self._started_at = True, time.monotonic()
        self._ended.clear()

    async def run(self) -> None:
        """Start it again whenever it dies. Raises `ProcessFailed` when that is hopeless."""
        backoff = Backoff()
        try:
            while not self._stopping.is_set():
                code = await self.process.wait()
                self._alive = False
                if not self._stopping.is_set():
                    lived_s = time.monotonic() - self._started_at
                    await self._start_again(code, backoff.delay_after(lived_s, code))
        finally:
            await self._end()

    async def stop(self) -> None:
        """End it in good order; returns when it has ended."""
        self._stopping.set()
        if self._alive:
            await self.process.stop()
        await self._ended.wait()

    def kill(self) -> None:
        """End it, and what it started, at once."""
        self._stopping.set()
        if self.pid is not None:
            kill_group(self.pid)

    async def _start_again(self, code: int, delay_s: float | None) -> None:
        how = _describe(code)
        if code == CONFIG_EXIT:
            raise ProcessFailed(f"{self.name} refused its settings; its error stands above")
        if delay_s is None:
            raise ProcessFailed(
                f"{self.name} died {MAX_QUICK_DEATHS} times, each within {QUICK_DEATH_S:g} s of "
                f"its start; the last time it {how}. Its log stands above; "
                "`shoal doctor` may know more"
            )
        self._report(f"{self.name} {how}; starting it again in {delay_s:g} s")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), delay_s)
        if not self._stopping.is_set():
            await self.start()

    async def _end(self) -> None:
        if self._alive:  # `stop` came while it was being started
            await self.process.stop()
            self._alive = False
        self._ended.set()


def kill_group(pid: int) -> None:
    """SIGKILL to a process that leads its group, and to all of the group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def _describe(code: int) -> str:
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"exited with code {code}"
