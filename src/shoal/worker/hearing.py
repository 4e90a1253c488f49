"""What the runtimes of a worker's lanes say, as events and callbacks, and when each lane last computed."""

from __future__ import annotations

import time
from collections.abc import Callable

from shoal.core import events as ev
from shoal.errors import ErrorInfo
from shoal.runtimes.base import OutOfMemory
from shoal.telemetry import log
from shoal.wire.socket import (
    Chunk,
    Done,
    Failed,
    FromRuntime,
    Generated,
    Loaded,
    Stats,
    Unloaded,
)
from shoal.worker.hears import Hears
from shoal.worker.probes import Probes

_log = log.get(__name__)


class Hearing:
    """Of all lanes.

    Attributes:
        computed_at: lane -> when it last answered a forward pass.
    """

    def __init__(self, hears: Hears, probes: Probes, forget: Callable[[str, str], None]) -> None:
        """`forget`: called with lane and model of a copy that is gone."""
        self.computed_at: dict[str, float] = {}
        self._hears = hears
        self._probes = probes
        self._forget = forget

    def heard(self, lane: str, kind: str, message: FromRuntime) -> None:
        """A message of the runtime process of this kind."""
        match message:
            case Done():
                self._computed(lane)
                if not self._probes.answered(message.batch):
                    self._hears.batch_done(lane, message)
            case Chunk():
                self._computed(lane)
                if message.batch >= 0:  # else of a probe
                    self._hears.chunk(lane, kind, message)
            case Generated():
                self._computed(lane)
                if not self._probes.answered(message.batch):
                    self._hears.generated(lane, message)
            case Loaded():
                self._hears.loaded(lane, message)
            case Failed(batch=int(batch)):
                error = ErrorInfo(message.code, message.message)
                if not self._probes.answered(batch, message.message):
                    self._hears.batch_failed(lane, batch, error)
            case Failed(model=str(model)):
                full = message.code == OutOfMemory.code
                self.load_failed(lane, model, message.message, full=full)
            case Unloaded():
                self._forget(lane, message.model)
                self._hears.emit(ev.Evicted(lane, message.model))
            case Stats():
                self._hears.emit(ev.StatsSeen(lane, kind, message.rss_bytes, message.models))
            case Failed():
                _log.event("runtime_complained", level="warning", lane=lane, error=message.message)
            case _:
                _log.event(
                    "unexpected_message", level="warning", lane=lane, kind=type(message).__name__
                )

    def _computed(self, lane: str) -> None:
        self.computed_at[lane] = time.monotonic()

    def load_failed(self, lane: str, model: str, reason: str, *, full: bool = False) -> None:
        """A model is not there; `full`: for want of memory."""
        self._forget(lane, model)
        self._hears.load_failed(lane, model, reason, out_of_memory=full)
