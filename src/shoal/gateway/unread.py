"""Memory of answers that their callers have not taken yet, all connections together.

Decides whose connection ends when they are too much. It must not know what answers hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from shoal.telemetry import log

_log = log.get(__name__)


class Connection(Protocol):
    """What is needed of the connection that a request comes and its answer goes on."""

    @property
    def all_read(self) -> bool:
        """Whether the bodies of all requests that came on it are here."""
        ...

    def when_lost(self, callback: Callable[[], None]) -> None:
        """Call `callback` once the caller has closed it, at once if so; only the latest one."""
        ...

    def abort(self) -> None:
        """End it; what waits to be read is dropped."""
        ...

    async def drained(self) -> None:
        """Return once nearly all that was written has been taken, or the connection is lost."""
        ...


class Unread:
    """Answers on their way out, the one that is longest at it first."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._held: dict[int, tuple[int, Connection]] = {}
        self._holders = 0
        self.bytes = 0

    @contextmanager
    def holding(self, size: int, connection: Connection) -> Iterator[None]:
        """Count an answer of this size; if they become too many, end who has read the longest.

        That is the slowest reader: among equal answers a fast one would be through.
        """
        self._holders += 1
        holder = self._holders
        self._held[holder] = (size, connection)
        self.bytes += size
        while self.bytes > self._most and len(self._held) > 1:
            longest = next(iter(self._held))
            dropped, reader = self._held[longest]
            self._give(longest)
            reader.abort()
            _log.event("reader_ended", level="warning", bytes=dropped, unread_bytes=self.bytes)
        try:
            yield
        finally:
            self._give(holder)

    def _give(self, holder: int) -> None:
        size, _ = self._held.pop(holder, (0, None))
        self.bytes -= size
