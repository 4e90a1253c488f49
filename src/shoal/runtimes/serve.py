"""The runtime process: one socket to its worker, one runtime, one call at a time.

A reader thread receives and decodes, so that the next batch is ready when the device gets free;
the main thread executes in order and answers. What is computed is the runtime's business, and
which batch comes when is the worker's.
"""

from __future__ import annotations

import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from queue import SimpleQueue
from typing import assert_never

from shoal.errors import ConfigError, ProtocolError, ShoalError, nearest
from shoal.runtimes.base import OutOfMemory, Runtime
from shoal.runtimes.finite import fail_non_finite
from shoal.runtimes.process import die_with_parent
from shoal.settings import RuntimeSettings, load
from shoal.wire.frames import FrameReader, frame_of
from shoal.wire.messages import (
    AddAdapter,
    AskStats,
    Bye,
    CancelBatch,
    Failed,
    FromRuntime,
    Load,
    RemoveAdapter,
    Run,
    ToRuntime,
    Unload,
    Unloaded,
    decode_to_runtime,
)


def _torch(settings: RuntimeSettings) -> Runtime:
    try:
        from shoal.runtimes.torch.runtime import TorchRuntime
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"the torch runtime needs the package '{error.name}': pip install 'shoal[torch]'"
        ) from None
    return TorchRuntime(settings.device, settings.threads)


def _fake(settings: RuntimeSettings) -> Runtime:
    from shoal.runtimes.fake import FakeRuntime

    return FakeRuntime(settings.device)


#: Each imports its runtime only when asked for, so that no kind needs another's packages.
KINDS: dict[str, Callable[[RuntimeSettings], Runtime]] = {"torch": _torch, "fake": _fake}


def run(settings: RuntimeSettings) -> int:
    """Serve one worker until it or the worker ends; returns the exit status.

    Raises:
        ConfigError: an unknown kind, a missing package, or no worker at the socket.
    """
    die_with_parent()
    make = KINDS.get(settings.kind)
    if make is None:
        raise ConfigError(
            f"unknown runtime kind '{settings.kind}'{nearest(settings.kind, KINDS)}; "
            f"known are {', '.join(KINDS)}"
        )
    runtime = make(settings)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(settings.socket)
    except OSError as error:
        raise ConfigError(f"no worker listens at {settings.socket}: {error.strerror}") from None
    with connection:
        return Server(connection, runtime).serve()


class Server:
    """One connection to a worker. `serve` belongs to the main thread and blocks until the end."""

    def __init__(self, connection: socket.socket, runtime: Runtime) -> None:
        self._connection = connection
        self._runtime = runtime
        self._todo: SimpleQueue[ToRuntime] = SimpleQueue()
        # Batches received and not started. Removing one is atomic: who succeeds owns the batch,
        # the main thread to run it or the reader to cancel it.
        self._waiting: set[int] = set()
        self._sending = threading.Lock()  # the reader answers some messages by itself
        self._end: tuple[int, str | None] | None = None  # exit status, reason to tell the worker

    def serve(self) -> int:
        """Say hello, then answer until `Bye`, SIGTERM, the worker's end or garbage."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._finish(0, "terminated"))
        try:
            self._send(frame_of(self._runtime.hello()))
            threading.Thread(target=self._read, name="reader", daemon=True).start()
            return self._work()
        except OSError as error:
            return _gone(error)

    def _work(self) -> int:
        while True:
            message = self._todo.get()
            if self._end is not None:
                status, reason = self._end
                if reason is not None:
                    self._send(frame_of(Bye(reason)))
                return status
            frame = self._answer(message)
            if frame is not None:
                self._send(frame)

    def _answer(self, message: ToRuntime) -> bytearray | None:
        """The reply to send, if there is one; errors become `Failed` and the process lives."""
        try:
            reply = self._execute(message)
            return None if reply is None else frame_of(reply)
        except ShoalError as error:
            return frame_of(_failed(message, error.code, error.message))
        except MemoryError as error:
            return frame_of(_failed(message, OutOfMemory.code, f"out of memory: {error}"))
        except Exception as error:
            traceback.print_exc()
            return frame_of(_failed(message, "internal", f"{type(error).__name__}: {error}"))

    def _execute(self, message: ToRuntime) -> FromRuntime | None:
        match message:
            case Run():
                try:
                    self._waiting.remove(message.batch)
                except KeyError:
                    return None  # cancelled, and answered by the reader
                return fail_non_finite(self._runtime.run(message))
            case Load():
                return self._runtime.load(message)
            case Unload():
                self._runtime.unload(message.model)
                return Unloaded(message.model)
            case AddAdapter():
                self._runtime.add_adapter(message)
            case RemoveAdapter():
                self._runtime.remove_adapter(message)
            case CancelBatch() | AskStats() | Bye():
                pass  # the reader's
            case _:
                assert_never(message)
        return None

    def _send(self, frame: bytearray) -> None:
        with self._sending:
            self._connection.sendall(frame)

    # --- the reader thread ---------------------------------------------------------------

    def _read(self) -> None:
        """Receive until the end, and let the main thread know how it came."""
        try:
            reader = FrameReader()
            while count := self._connection.recv_into(reader.buffer()):
                for frame in reader.received(count):
                    self._accept(decode_to_runtime(frame))
            self._finish(0)
        except ProtocolError as error:
            _report(f"garbage on the socket: {error}")
            self._finish(1, f"garbage on the socket: {error}")
        except OSError as error:
            self._finish(_gone(error))

    def _accept(self, message: ToRuntime) -> None:
        """Answer at once what needs no device, queue the rest."""
        match message:
            case AskStats():
                self._send(frame_of(self._runtime.stats()))
            case CancelBatch():
                self._cancel(message.batch)
            case Bye():
                self._finish(0)
            case _:
                if isinstance(message, Run):
                    self._waiting.add(message.batch)
                self._todo.put(message)

    def _cancel(self, batch: int) -> None:
        """Drop a batch that has not started; a started one answers as usual."""
        try:
            self._waiting.remove(batch)
        except KeyError:
            return
        self._send(frame_of(Failed("cancelled", "cancelled before it started", batch)))

    def _finish(self, status: int, reason: str | None = None) -> None:
        """End after the call in progress. Safe in a signal handler: it takes no lock."""
        if self._end is None:
            self._end = (status, reason)
        self._todo.put(Bye())  # wakes the main thread


def _failed(message: ToRuntime, code: str, text: str) -> Failed:
    if isinstance(message, Run):
        return Failed(code, text, batch=message.batch)
    return Failed(code, text, model=getattr(message, "model", None))


def _gone(error: OSError) -> int:
    """Nobody is left to answer; that is how a worker's death looks, so it is no failure."""
    _report(f"the worker is gone: {error.strerror}")
    return 0


def _report(text: str) -> None:
    """The worker writes this process's stderr to its log."""
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    """``python -m shoal.runtimes.serve kind=fake socket=PATH``: lighter than the whole CLI."""
    try:
        pairs = dict(_pair(argument) for argument in sys.argv[1:])
        sys.exit(run(load(RuntimeSettings, [("command line", pairs)])))
    except ShoalError as error:
        _report(f"shoal runtime: {error.message}")
        sys.exit(2)


def _pair(argument: str) -> tuple[str, str]:
    key, equals, value = argument.partition("=")
    if not equals:
        raise ConfigError(f"command line: expected key=value, got '{argument}'")
    return key, value


if __name__ == "__main__":
    main()
