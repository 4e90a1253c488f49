"""Who is told what the runtimes of a worker do: its shell."""

from __future__ import annotations

from typing import Protocol

from shoal.core import events as ev
from shoal.errors import ErrorInfo
from shoal.wire.socket import Chunk, Done, Generated, Loaded


class Hears(Protocol):
    """Who is told what runtimes do."""

    def emit(self, event: ev.Event) -> None: ...

    def loaded(self, lane: str, loaded: Loaded) -> None: ...

    def load_failed(
        self, lane: str, model: str, reason: str, *, out_of_memory: bool = False
    ) -> None: ...

    def fetch_failed(self, model: str, reason: str, *, unserved: bool = False) -> None: ...

    def batch_done(self, lane: str, done: Done) -> None: ...

    def batch_failed(self, lane: str, batch: int, error: ErrorInfo) -> None: ...

    def chunk(self, lane: str, kind: str, chunk: Chunk) -> None: ...

    def generated(self, lane: str, over: Generated) -> None: ...

    def runtime_died(self, lane: str, kind: str, reason: str) -> None: ...
