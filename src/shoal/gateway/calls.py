"""The requests that somebody waits for, and which of them a unit is of. Decides nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from shoal.errors import ShoalError
from shoal.gateway.job import Call
from shoal.gateway.replies import Answer
from shoal.wire.queue import Reply


class Calls:
    """Of one gateway process, by their keys."""

    def __init__(self) -> None:
        self._calls: dict[str, Call] = {}
        self._idle = asyncio.Event()
        self._idle.set()

    def __len__(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[Call]:
        return iter(self._calls.values())

    async def idle(self) -> None:
        """Return when no request waits."""
        await self._idle.wait()

    def add(self, call: Call) -> None:
        """Somebody waits for it from now on."""
        self._calls[call.job.key] = call
        self._idle.clear()

    def remove(self, call: Call) -> None:
        """Nobody does any more."""
        del self._calls[call.job.key]
        if not self._calls:
            self._idle.set()

    def get(self, request: str) -> Call | None:
        """None if nobody waits for it."""
        return self._calls.get(request)

    def of(self, unit: str) -> Call | None:
        """The one that a unit is of; None if nobody waits for it."""
        return self._calls.get(unit.rpartition(".")[0])

    def keep(self, unit: str, reply: Reply) -> None:
        """A unit was answered."""
        call = self.of(unit)
        if call is not None:
            answer = call.answers[unit] = Answer(call.spans[unit], reply)
            if call.feed is not None:
                call.feed.end(answer)

    def finish(self, request: str, error: ShoalError | None) -> None:
        """All of its units were answered, or it failed; once."""
        call = self.get(request)
        if call is None or call.done.done():
            return
        if error is None:
            call.done.set_result(None)
        else:
            call.done.set_exception(error)
