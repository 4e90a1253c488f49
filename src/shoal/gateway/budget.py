"""What the bodies of all requests may take together: memory, and time of the event loop."""

from __future__ import annotations

import asyncio
from collections import deque

from shoal.errors import Overloaded

#: Bodies that are read on in one turn of the event loop, each by a read of the socket (256 KiB):
#: copying one takes up to 1 ms, and whoever else asks waits for all of them.
READS_A_TURN = 4


class BodyBudget:
    """Memory and turns for the bodies of all requests of a gateway together."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self.held_bytes = 0
        self._reads = 0  # in this turn of the loop
        self._waiting: deque[asyncio.Future[None]] = deque()

    def take(self, count: int) -> None:
        """Count these bytes. Raises `Overloaded` where they are too many."""
        if self.held_bytes + count > self._most:
            raise Overloaded(
                f"the bodies of requests in flight take {self.held_bytes} bytes, and together they may "
                f"take {self._most} (max_bodies_bytes): try again",
                retry_after_s=1.0,
            )
        self.held_bytes += count

    def give(self, count: int) -> None:
        """These bytes are no longer held."""
        self.held_bytes -= count

    async def turn(self) -> None:
        """Return when more of a body may be read: first come, first served, a few at a time."""
        loop = asyncio.get_running_loop()
        if not self._reads:
            loop.call_soon(self._next_turn)
        if self._reads < READS_A_TURN:
            self._reads += 1
        else:
            self._waiting.append(future := loop.create_future())
            await future

    def _next_turn(self) -> None:
        self._reads = 0
        while self._waiting and self._reads < READS_A_TURN:
            future = self._waiting.popleft()
            if not future.done():  # its caller is gone
                future.set_result(None)
                self._reads += 1
        if self._reads:
            asyncio.get_running_loop().call_soon(self._next_turn)
