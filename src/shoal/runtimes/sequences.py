"""The sequences of a connection that are being generated: begun, carried on a pass at a time, ended.

All of it is the main thread's but `cancel`, which is the reader's.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue

from shoal.errors import InvalidRequest, ShoalError, bounded
from shoal.runtimes.base import Generates, OutOfMemory, Runtime
from shoal.wire.socket import Failed, FromRuntime, Generate, Generated


class Sequences:
    """Those of one connection.

    Args:
        send: called with what is told at once, as all that one pass gave.
        answered: called with the model of each sequence once its last message went out.
    """

    def __init__(
        self,
        runtime: Runtime,
        send: Callable[[Sequence[FromRuntime]], None],
        answered: Callable[[str], None],
    ) -> None:
        self._runtime: Generates | None = runtime if isinstance(runtime, Generates) else None
        self._send = send
        self._answered = answered
        self._models: dict[int, str] = {}  # those under way
        self._cancelled: SimpleQueue[int] = SimpleQueue()

    def __len__(self) -> int:
        return len(self._models)

    def begin(self, generate: Generate) -> None:
        """Take a sequence in. Raises what the runtime has against it."""
        if self._runtime is None:
            raise InvalidRequest(
                "this runtime generates no sequences (its hello says no `streams`)"
            )
        self._runtime.begin(generate)
        self._models[generate.batch] = generate.model

    def cancel(self, batch: int) -> None:
        """End this sequence before the next pass; one that ended by itself is left alone."""
        self._cancelled.put(batch)

    def step(self) -> None:
        """One pass, and whatever it gives."""
        assert self._runtime is not None, "something was begun"
        self.end_cancelled()
        if not self._models:
            return
        try:
            messages = self._runtime.step()
        except Exception as error:
            self._fail_all(self._runtime, error)
            return
        if messages:
            self._send(messages)
        for message in messages:
            if isinstance(message, Generated | Failed) and message.batch is not None:
                self._over(message.batch)

    def end_cancelled(self) -> None:
        """End those that were called off; what is not under way is not meant, now or later."""
        while True:
            try:
                batch = self._cancelled.get_nowait()
            except Empty:
                return
            if batch in self._models:
                assert self._runtime is not None, "it was begun"
                self._send([self._runtime.end(batch)])
                self._over(batch)

    def _fail_all(self, runtime: Generates, error: Exception) -> None:
        """A pass is of all sequences, so that nobody knows whose fault it was."""
        code, text = "internal", f"{type(error).__name__}: {error}"
        if isinstance(error, ShoalError):
            code, text = error.code, error.message
        elif isinstance(error, MemoryError):
            code = OutOfMemory.code
        else:
            traceback.print_exception(error)
        for batch in list(self._models):
            runtime.end(batch)
            self._send([Failed(code, bounded(text), batch)])
            self._over(batch)

    def _over(self, batch: int) -> None:
        self._answered(self._models.pop(batch))
