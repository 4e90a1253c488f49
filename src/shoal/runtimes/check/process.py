"""The worker's end of a runtime that is checked: it sends bytes, and waits no longer than it may.

Unlike `link`, which keeps a runtime in good order, this one sees whatever comes, and how the process
ends. It knows no check.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections import deque
from pathlib import Path
from typing import TypeVar

from shoal.errors import ProtocolError
from shoal.runtimes.check.verdict import Faulty, expect, shown
from shoal.runtimes.spec import RuntimeSpec, private_folder
from shoal.wire.codec import Buffer, Message
from shoal.wire.frames import FrameReader, frame_of
from shoal.wire.socket import FromRuntime, Hello, ToRuntime, decode_from_runtime

M = TypeVar("M", bound=Message)

#: Between two looks at whether a process that was started still lives, or has left anything.
_POLL_S = 0.02
_TAIL_LINES = 5


class Limit:
    """Until when a check may wait; all that it waits for shares it."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._until = 0.0
        self.begin()

    def begin(self) -> None:
        """All of it is left again."""
        self._until = time.monotonic() + self.seconds

    def left(self, what: str) -> float:
        """Seconds. Raises `Faulty` that names what was waited for, where none are."""
        left = self._until - time.monotonic()
        expect(left > 0, f"{what} did not come within {self.seconds:g} s")
        return left


class Process:
    """A started runtime; `hello` is the first thing it said.

    Raises `Faulty` wherever something else comes than what was due, or nothing in time.
    """

    def __init__(self, spec: RuntimeSpec, limit: Limit) -> None:
        self._limit = limit
        self._reader = FrameReader()
        self._heard: deque[FromRuntime] = deque()
        self._folder = private_folder()
        try:
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(str(self._folder / "s"))
                listener.listen(1)
                self._popen = self._started(spec)
                self._socket = self._accepted(listener)
            self.hello = self.hear(Hello)
        except BaseException:
            self.kill()
            raise

    @property
    def _output(self) -> Path:
        return self._folder / "output"

    @property
    def pid(self) -> int:
        return self._popen.pid

    def send(self, *messages: ToRuntime) -> None:
        """All of them, in one piece."""
        self.send_bytes(b"".join(frame_of(message) for message in messages))

    def send_bytes(self, data: Buffer) -> None:
        """Whatever they mean."""
        self._socket.settimeout(self._limit.left("room for what is sent"))
        try:
            self._socket.sendall(data)
        except TimeoutError:
            raise Faulty("it does not read what is sent while it is busy") from None
        except OSError:
            raise Faulty(f"it closed the socket{self._last_words()}") from None

    def ask(self, message: ToRuntime, answer: type[M]) -> M:
        """Send a message, and hear what must be its answer."""
        self.send(message)
        return self.hear(answer)

    def hear(self, due: type[M]) -> M:
        """The next message, which is one of `due`."""
        what = f"'{due.__struct_config__.tag}'"
        message = self.hear_any(what)
        if not isinstance(message, due):
            raise Faulty(f"{what} was due, and {shown(message)} came")
        return message

    def hear_any(self, what: str = "an answer") -> FromRuntime:
        """The next message."""
        message = self.next(what)
        if message is None:
            raise Faulty(f"{what} was due, and it closed the socket{self._last_words()}")
        return message

    def next(self, what: str = "the end of the connection") -> FromRuntime | None:
        """The next message; None at the end of the connection."""
        while not self._heard:
            self._socket.settimeout(self._limit.left(what))
            try:
                count = self._socket.recv_into(self._reader.buffer())
            except TimeoutError:
                continue
            except ConnectionError:
                count = 0
            if not count:
                return None
            try:
                self._heard += map(decode_from_runtime, self._reader.received(count))
            except ProtocolError as error:
                raise Faulty(f"it sends garbage: {error.message}") from None
        return self._heard.popleft()

    def close(self) -> None:
        """End the connection, as a worker does that dies."""
        self._socket.close()

    def tell(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._popen.send_signal(number)

    def ended(self) -> int:
        """Its exit status, negative the signal that ended it; nothing that it started is left."""
        while (status := self._popen.poll()) is None:
            self._pause("its end")
        while self._left_behind():
            self._pause("the end of what it started")
        return status

    def kill(self) -> None:
        """End it, and all that it started, now."""
        with contextlib.suppress(AttributeError):  # it was not started, or did not connect
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
            self._popen.wait()
            self._socket.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _started(self, spec: RuntimeSpec) -> subprocess.Popen[bytes]:
        try:
            with self._output.open("wb") as output:  # a pipe that nobody reads would stop it
                return subprocess.Popen(
                    spec.line(self._folder / "s"),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=spec.environment(),
                    process_group=0,
                )
        except OSError as error:
            raise Faulty(f"cannot start {spec.command[0]}: {error.strerror}") from None

    def _accepted(self, listener: socket.socket) -> socket.socket:
        listener.settimeout(_POLL_S)
        while True:
            try:
                return listener.accept()[0]
            except TimeoutError:
                self._limit.left("its connection to the socket")
            if self._popen.poll() is not None:
                raise Faulty(f"it ended before it said hello{self._last_words()}")

    def _pause(self, what: str) -> None:
        self._limit.left(what)
        time.sleep(_POLL_S)

    def _left_behind(self) -> bool:
        """Whether its process group has a member."""
        try:
            os.killpg(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:  # macOS says so of those that are no more than not yet collected
            return False
        return True

    def _last_words(self) -> str:
        """How it ended, if it did, and what it printed last."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(1.0)  # a socket is closed before its process has ended
        status = self._popen.returncode
        how = "" if status is None else f", with exit status {status}"
        lines = self._output.read_text(errors="replace").strip().splitlines()
        return how + "".join(f"\n{line}" for line in lines[-_TAIL_LINES:])
