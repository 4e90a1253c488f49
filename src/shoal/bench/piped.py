"""A helper process of a benchmark: one message in, one message out, over its standard streams.

Decides only how messages travel. Load generators and rivals live in processes of their own so
that their work neither delays nor hides what is measured.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping
from types import UnionType
from typing import IO, Generic, TypeVar

import msgspec

from shoal.errors import ShoalError

_LENGTH = struct.Struct(">Q")
_CLOSE_S = 10.0

Asked = TypeVar("Asked", bound=msgspec.Struct)
Answered = TypeVar("Answered", bound=msgspec.Struct)


class HelperDied(ShoalError):
    """A helper process ended in the middle of its work; its own error is on standard error."""

    code = "helper_died"


class Helper(Generic[Asked, Answered]):
    """Starts ``python -m module *arguments`` and talks to it; use it as a context manager."""

    def __init__(
        self,
        module: str,
        answered: type[Answered],
        arguments: tuple[str, ...] = (),
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._answered = answered
        self._module = module
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **(env or {})},
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, message: Asked) -> Answered:
        """Send `message` and wait for the answer. Raises `HelperDied`."""
        self.give(message)
        return self.take()

    def give(self, message: Asked) -> None:
        """Send `message`; its work begins once all of it is there. Raises `HelperDied`."""
        assert self._process.stdin, "started with pipes"
        try:
            _write(self._process.stdin, msgspec.msgpack.encode(message))
        except BrokenPipeError:
            raise self._died() from None

    def take(self) -> Answered:
        """Wait for the answer to what was given. Raises `HelperDied`."""
        assert self._process.stdout, "started with pipes"
        answer = _read(self._process.stdout)
        if answer is None:
            raise self._died()
        return msgspec.msgpack.decode(answer, type=self._answered)

    def _died(self) -> HelperDied:
        return HelperDied(f"{self._module} ended with code {self._process.wait(_CLOSE_S)}")

    def __enter__(self) -> Helper[Asked, Answered]:
        return self

    def __exit__(self, *_: object) -> None:
        """End of input is the sign to end."""
        assert self._process.stdin and self._process.stdout, "started with pipes"
        self._process.stdin.close()
        self._process.stdout.close()
        try:
            self._process.wait(_CLOSE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def serve(asked: type[Asked] | UnionType, answer: Callable[[Asked], msgspec.Struct]) -> None:
    """The helper's side: answer every message until the input ends."""
    # Whatever else prints must not get between the messages.
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    while (data := _read(sys.stdin.buffer)) is not None:
        _write(out, msgspec.msgpack.encode(answer(msgspec.msgpack.decode(data, type=asked))))


def _write(stream: IO[bytes], data: bytes) -> None:
    stream.write(_LENGTH.pack(len(data)))
    stream.write(data)
    stream.flush()


def _read(stream: IO[bytes]) -> bytes | None:
    """The next message; None at the end of the stream."""
    header = stream.read(_LENGTH.size)
    if len(header) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(header)
    data = stream.read(length)
    return data if len(data) == length else None
