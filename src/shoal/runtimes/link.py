"""The worker's end of a runtime: one child process behind one Unix socket.

It knows how to start, hear, talk to and end the process; what to load, what to run and what a
death means for the batches in flight is the worker's decision.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
from asyncio import FIRST_COMPLETED
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shoal.runtimes.base import RuntimeStartFailed
from shoal.runtimes.connection import Connection
from shoal.runtimes.spec import RuntimeSpec, private_folder
from shoal.wire.codec import PROTOCOL_VERSION
from shoal.wire.socket import Bye, FromRuntime, Hello, ToRuntime

log = logging.getLogger(__name__)

_TAIL_LINES = 20
#: After one of process, socket and stderr has ended, how long the others may take.
_SETTLE_S = 1.0


class RuntimeProcess:
    """One runtime process. All methods and callbacks belong to the event loop's thread.

    Linux kills the child when the thread that started it ends, so that must be the main thread.

    Args:
        on_message: called for every message but `Hello` and `Bye`, in order, without awaiting.
        on_exit: called exactly once after a successful `start`, unless `stop` was called: the
            exit status (negative: the signal) and the last lines of stderr. By then no message
            is left to come.
    """

    def __init__(
        self,
        spec: RuntimeSpec,
        on_message: Callable[[FromRuntime], None],
        on_exit: Callable[[int, str], None],
    ) -> None:
        self._spec = spec
        self._on_message = on_message
        self._on_exit = on_exit
        self._connection = Connection(on_message)
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._process: Process | None = None
        self._ended: asyncio.Task[None] | None = None
        self._greeted = False
        self._stopping = False

    @property
    def pid(self) -> int:
        """Process id, also of its process group."""
        assert self._process is not None, "start() comes first"
        return self._process.pid

    @property
    def hello(self) -> Hello:
        """What the process said of itself; only after `start`."""
        return self._connection.hello.result()

    async def start(self, timeout_s: float = 120.0) -> Hello:
        """Start the process and wait for its hello; importing torch may take many seconds.

        Raises:
            RuntimeStartFailed: it cannot be started, ended, spoke another protocol or stayed
                silent; the message ends with its last lines of stderr.
        """
        folder = private_folder()
        path = folder / "s"
        try:
            server = await asyncio.get_running_loop().create_unix_server(
                lambda: self._connection, path
            )
            try:
                self._process = await self._spawn(path)
                self._ended = asyncio.create_task(self._supervise(self._process))
                return await self._greeting(self._ended, timeout_s)
            finally:
                server.close()
        finally:
            if self._process is not None and not self._greeted:
                self.kill()
            shutil.rmtree(folder, ignore_errors=True)

    def send(self, message: ToRuntime) -> None:
        """Queue a message for the process. After its end this does nothing: `on_exit` tells."""
        self._connection.send(message)

    def kill(self) -> None:
        """Kill the process and all that it started, now; `on_exit` follows."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    async def stop(self, grace_s: float = 5.0) -> None:
        """Ask for the end, then insist: `Bye`, SIGTERM and SIGKILL, `grace_s` after each other."""
        self._stopping = True
        if self._process is None or self._ended is None:
            return
        self.send(Bye("the worker stops this runtime"))
        await asyncio.wait([self._ended], timeout=grace_s)
        if not self._ended.done():
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()
            await asyncio.wait([self._ended], timeout=grace_s)
        if not self._ended.done():
            self.kill()
        await self._ended

    async def _spawn(self, path: Path) -> Process:
        spec = self._spec
        try:
            return await asyncio.create_subprocess_exec(
                *spec.line(path),
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=STDOUT,  # libraries print on both
                env=spec.environment(),
                # A terminal's Ctrl-C is for the worker, which drains. Not a session of its own: see
                # `cores`. uvloop has no other way to a process group.
                preexec_fn=os.setpgrp,
            )
        except OSError as error:
            raise RuntimeStartFailed(
                f"cannot start {spec.command[0]} for runtime '{spec.kind}': {error.strerror}"
            ) from None

    async def _greeting(self, ended: asyncio.Task[None], timeout_s: float) -> Hello:
        hello = self._connection.hello
        first: list[asyncio.Future[Any]] = [hello, ended]
        await asyncio.wait(first, timeout=timeout_s, return_when=FIRST_COMPLETED)
        if ended.done():
            why = f"ended with status {self._status()} before it said hello"
        elif not hello.done():
            why = f"did not say hello within {timeout_s:g} s"
        elif hello.result().protocol != PROTOCOL_VERSION:
            why = f"speaks protocol {hello.result().protocol}, the worker {PROTOCOL_VERSION}"
        else:
            self._greeted = True
            return hello.result()
        self.kill()
        await ended
        told = "\n".join([f"runtime '{self._spec.kind}' {why}", *self._last_lines()])
        raise RuntimeStartFailed(told)

    async def _supervise(self, process: Process) -> None:
        """Bring process, socket and stderr to their end once the first of them has ended."""
        lines = asyncio.create_task(self._read_lines(process))
        exited = asyncio.create_task(process.wait())
        both: list[asyncio.Future[Any]] = [exited, self._connection.closed]
        await asyncio.wait(both, return_when=FIRST_COMPLETED)
        if self._connection.made and self._connection.garbage is None:
            await asyncio.wait(both, timeout=None if self._stopping else _SETTLE_S)
        self.kill()  # also what a dead process left in its group
        await exited
        await asyncio.wait([lines], timeout=_SETTLE_S)
        lines.cancel()
        self._connection.close()
        if self._greeted and not self._stopping:
            self._on_exit(self._status(), "\n".join(self._last_lines()))

    async def _read_lines(self, process: Process) -> None:
        """Pass what the process prints on to the log, line by line."""
        assert process.stdout is not None
        labels = {"runtime": self._spec.kind, "pid": process.pid}
        while True:
            try:
                line = await process.stdout.readline()
            except ValueError:  # a line longer than asyncio's limit of 64 KB
                continue
            if not line:
                return
            text = line.decode(errors="replace").rstrip()
            self._tail.append(text)
            log.info("%s", text, extra=labels)

    def _status(self) -> int:
        assert self._process is not None
        assert self._process.returncode is not None
        return self._process.returncode

    def _last_lines(self) -> list[str]:
        reason = self._connection.garbage or self._connection.farewell
        return [*self._tail, *([reason] if reason else [])]
