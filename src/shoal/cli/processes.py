"""Child processes of one machine: started, watched, started again, stopped; none is left behind.

Decides when a process that died starts again and when to give up. It knows nothing of what the
processes do.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable

import msgspec

from shoal.errors import ShoalError

#: A life shorter than this is a failed start; five of them in a row and the fault is no accident.
QUICK_DEATH_S = 10.0
MAX_QUICK_DEATHS = 5
FIRST_DELAY_S = 0.25
MAX_DELAY_S = 10.0
#: Exit code of a wrong setting: starting again cannot help.
CONFIG_EXIT = 2
#: After SIGKILL the kernel needs a moment, more on a machine that swaps.
KILL_WAIT_S = 5.0

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


class ProcessFailed(ShoalError):
    """A child process keeps dying."""

    code = "process_failed"


class Spec(msgspec.Struct, frozen=True):
    """What to run. `drain_s`: how long it may take to end after SIGTERM."""

    name: str
    command: list[str]
    env: dict[str, str]
    drain_s: float = 5.0


class Backoff:
    """When a process that died may start again."""

    def __init__(self) -> None:
        self._quick = 0

    def delay_after(self, lived_s: float) -> float | None:
        """Seconds to wait before the next start; None after too many quick deaths in a row."""
        self._quick = self._quick + 1 if lived_s < QUICK_DEATH_S else 0
        if self._quick >= MAX_QUICK_DEATHS:
            return None
        return float(min(MAX_DELAY_S, FIRST_DELAY_S * 2**self._quick))


class Child:
    """One process that is kept alive until `stop`."""

    def __init__(self, spec: Spec, report: Callable[[str], None]) -> None:
        self.spec = spec
        self._report = report
        self._stopping = asyncio.Event()
        self._ended = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process and self._process.returncode is None else None

    async def run(self) -> None:
        """Start it, and again whenever it dies. Raises `ProcessFailed` when that is hopeless."""
        backoff = Backoff()
        try:
            while not self._stopping.is_set():
                started = time.monotonic()
                code = await self._run_once()
                if not self._stopping.is_set():
                    await self._pause(code, backoff.delay_after(time.monotonic() - started))
        finally:
            self._signal(signal.SIGKILL)
            self._ended.set()

    async def stop(self) -> None:
        """End it: SIGTERM, then SIGKILL when `drain_s` is over. `run` returns."""
        self._stopping.set()
        self._signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(self._ended.wait(), self.spec.drain_s)
        except TimeoutError:
            self._report(f"{self.spec.name} did not end within {self.spec.drain_s:g} s; killed")
            await self.kill()

    async def kill(self) -> None:
        """End it, and what it started, at once."""
        self._stopping.set()
        self._signal(signal.SIGKILL)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._ended.wait(), KILL_WAIT_S)

    async def _run_once(self) -> int:
        self._process = await asyncio.create_subprocess_exec(
            *self.spec.command,
            env=self.spec.env,
            stdin=asyncio.subprocess.DEVNULL,
            # A group of its own: Ctrl-C in the terminal must reach only us, who stop in order.
            process_group=0,
            preexec_fn=_die_with(os.getpid()),
        )
        if self._stopping.is_set():  # `stop` came while it was being started
            self._signal(signal.SIGTERM)
        return await self._process.wait()

    async def _pause(self, code: int, delay_s: float | None) -> None:
        how = _describe(code)
        if code == CONFIG_EXIT:
            raise ProcessFailed(f"{self.spec.name} refused its settings; its error stands above")
        if delay_s is None:
            raise ProcessFailed(
                f"{self.spec.name} died {MAX_QUICK_DEATHS} times, each within {QUICK_DEATH_S:g} s "
                f"of its start; the last time it {how}. Its log stands above; "
                "`shoal doctor` may know more"
            )
        self._report(f"{self.spec.name} {how}; starting it again in {delay_s:g} s")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), delay_s)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is None or self._process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            if number == signal.SIGKILL:
                os.killpg(self._process.pid, number)  # with whatever it started
            else:
                self._process.send_signal(number)


def _describe(code: int) -> str:
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"exited with code {code}"


def _die_with(parent: int) -> Callable[[], None] | None:
    """Code for the child: ask the kernel for SIGTERM when its parent dies (Linux only)."""
    if _libc is None:
        return None

    def ask() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it died between fork and prctl
            os._exit(1)

    return ask
