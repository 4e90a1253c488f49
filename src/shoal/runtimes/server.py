"""One connection to a worker: batches one at a time, loads one at a time, beside each other.

Sequences that are being generated are carried on a pass at a time; between two passes one batch has
its turn.

A reader thread receives and decodes, so that the next batch is ready when the device gets free.
The main thread runs batches in the order they came, a loader thread loads and unloads models in
the order that came, so that no batch waits for a load. What is computed is the runtime's business,
and which batch comes when is the worker's.
"""

from __future__ import annotations

import signal
import socket
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Sequence
from queue import Empty, SimpleQueue
from typing import assert_never

from shoal.errors import ProtocolError, ShoalError, bounded
from shoal.runtimes.base import OutOfMemory, Runtime
from shoal.runtimes.sequences import Sequences
from shoal.wire.frames import FrameReader, frame_of
from shoal.wire.socket import (
    AddAdapter,
    AskStats,
    Bye,
    CancelBatch,
    Failed,
    FromRuntime,
    Generate,
    Load,
    RemoveAdapter,
    Run,
    ToRuntime,
    Unload,
    Unloaded,
    decode_to_runtime,
)


class Server:
    """One connection to a worker. `serve` belongs to the main thread and blocks until the end."""

    def __init__(self, connection: socket.socket, runtime: Runtime) -> None:
        self._connection = connection
        self._runtime = runtime
        self._todo: SimpleQueue[ToRuntime] = SimpleQueue()
        self._to_load: SimpleQueue[Load | Unload | None] = SimpleQueue()
        # Batches received and not started. Removing one is atomic: who succeeds owns the batch,
        # the main thread to run it or the reader to cancel it.
        self._waiting: set[int] = set()
        self._unanswered: Counter[str] = Counter()  # model -> its batches received and not answered
        self._answered = threading.Condition()  # guards `_unanswered`, tells that it fell
        self._sequences = Sequences(runtime, self._tell, self._passed)
        self._sending = threading.Lock()  # the reader answers some messages by itself
        self._ended = False
        self._farewell: str | None = None  # what to tell the worker at the end
        self._garbage: ProtocolError | None = None

    def serve(self) -> None:
        """Say hello, then answer until `Bye`, SIGTERM or the worker's end.

        Raises:
            ProtocolError: the worker sent garbage; it was told so.
        """
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._finish("terminated"))
        try:
            self._send(frame_of(self._runtime.hello()))
            threading.Thread(target=self._read, name="reader", daemon=True).start()
            loader = threading.Thread(target=self._load, name="loader", daemon=True)
            loader.start()
            self._work()
            self._end_loading()
            loader.join()
            if self._farewell is not None:
                self._send(frame_of(Bye(self._farewell)))
        except OSError as error:
            _gone(error)
        if self._garbage is not None:
            raise self._garbage

    def _work(self) -> None:
        while True:
            message = self._next()
            if self._ended:
                return
            if message is not None:
                self._answer(message)
            if isinstance(message, Run):
                self._passed(message.model)
            if self._sequences and not isinstance(message, Generate):  # first take in all that came
                self._sequences.step()

    def _next(self) -> ToRuntime | None:
        """What is to be done before the next pass; without sequences, whatever comes."""
        if not self._sequences:
            return self._todo.get()
        try:
            return self._todo.get_nowait()
        except Empty:
            return None

    def _passed(self, model: str) -> None:
        """A batch was answered, or cancelled before: it holds nothing of its model any more."""
        with self._answered:
            self._unanswered[model] -= 1
            self._answered.notify_all()

    def _answer(self, message: ToRuntime) -> None:
        """Send the reply, if there is one; errors become `Failed` and the process lives."""
        try:
            reply = self._execute(message)
            frame = None if reply is None else frame_of(reply)
        except ShoalError as error:
            frame = frame_of(_failed(message, error.code, error.message))
        except MemoryError as error:
            frame = frame_of(_failed(message, OutOfMemory.code, f"out of memory: {error}"))
        except Exception as error:
            traceback.print_exc()
            frame = frame_of(_failed(message, "internal", f"{type(error).__name__}: {error}"))
        if frame is not None:
            self._send(frame)

    def _execute(self, message: ToRuntime) -> FromRuntime | None:
        match message:
            case Run():
                try:
                    self._waiting.remove(message.batch)
                except KeyError:
                    return None  # cancelled, and answered by the reader
                return self._runtime.run(message)
            case Generate():
                self._begin(message)
            case Load():
                return self._runtime.load(message)
            case Unload():
                self._runtime.unload(message.model)
                return Unloaded(message.model)
            case AddAdapter():
                self._runtime.add_adapter(message)
            case RemoveAdapter():
                self._runtime.remove_adapter(message)
            case AskStats():
                return self._runtime.stats()
            case CancelBatch() | Bye():
                pass  # the reader's
            case _:
                assert_never(message)
        return None

    def _begin(self, generate: Generate) -> None:
        """A sequence that cannot begin is answered with why."""
        self._sequences.end_cancelled()  # none of these is meant for this one
        try:
            self._waiting.remove(generate.batch)
        except KeyError:
            self._passed(generate.model)  # cancelled, and answered by the reader
            return
        try:
            self._sequences.begin(generate)
        except BaseException:
            self._passed(generate.model)
            raise

    def _tell(self, messages: Sequence[FromRuntime]) -> None:
        """In one write: each wakes the worker, and its loop goes before what computes."""
        frames = bytearray()
        for message in messages:
            frames += frame_of(message)
        self._send(frames)

    def _send(self, frame: bytearray) -> None:
        with self._sending:
            self._connection.sendall(frame)

    # --- the loader thread ---------------------------------------------------------------

    def _load(self) -> None:
        """Load and unload until the end."""
        try:
            while (message := self._to_load.get()) is not None:
                if isinstance(message, Unload):
                    self._wait_for_batches(message.model)
                if self._ended:
                    return
                self._answer(message)
        except OSError as error:
            _gone(error)
            self._finish()

    def _wait_for_batches(self, model: str) -> None:
        with self._answered:
            self._answered.wait_for(lambda: self._ended or self._unanswered[model] <= 0)

    def _end_loading(self) -> None:
        """Wake the loader thread, whatever it waits for; `_ended` is set."""
        self._to_load.put(None)
        with self._answered:
            self._answered.notify_all()

    # --- the reader thread ---------------------------------------------------------------

    def _read(self) -> None:
        """Receive until the end, and let the main thread know how it came."""
        try:
            reader = FrameReader()
            while not self._ended and (count := self._connection.recv_into(reader.buffer())):
                for frame in reader.received(count):
                    self._accept(decode_to_runtime(frame))
            self._finish()
        except ProtocolError as error:
            self._garbage = ProtocolError(f"garbage on the socket: {error.message}")
            self._finish(self._garbage.message)
        except OSError as error:
            _gone(error)
            self._finish()

    def _accept(self, message: ToRuntime) -> None:
        """Answer at once what needs no device, queue the rest."""
        match message:
            case AskStats():
                self._answer(message)
            case CancelBatch():
                self._cancel(message.batch)
            case Bye():
                self._finish()
            case Load() | Unload():
                self._to_load.put(message)
            case Run() | Generate():
                with self._answered:
                    self._unanswered[message.model] += 1
                self._waiting.add(message.batch)
                self._todo.put(message)
            case AddAdapter() | RemoveAdapter():
                self._todo.put(message)
            case _:
                assert_never(message)

    def _cancel(self, batch: int) -> None:
        """Drop a batch that has not started; a started one answers as usual, a sequence ends."""
        try:
            self._waiting.remove(batch)
        except KeyError:
            self._sequences.cancel(batch)
            return
        self._send(frame_of(Failed("cancelled", "cancelled before it started", batch)))

    def _finish(self, farewell: str | None = None) -> None:
        """End after the calls in progress. Safe in a signal handler: it takes no lock."""
        if not self._ended:
            self._farewell, self._ended = farewell, True
        self._todo.put(Bye())  # wakes the main thread


def _failed(message: ToRuntime, code: str, text: str) -> Failed:
    text = bounded(text)
    if isinstance(message, Run | Generate):
        return Failed(code, text, batch=message.batch)
    return Failed(code, text, model=getattr(message, "model", None))


def _gone(error: OSError) -> None:
    """Nobody is left to answer; that is how a worker's death looks, so it is no failure."""
    print(f"the worker is gone: {error.strerror}", file=sys.stderr, flush=True)
