"""Fetches the large items of units from the payload store while earlier batches run.

Decides how long a payload may still be on its way, and how many bytes lie here at a time. It must
not know what an item means or what becomes of its unit.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from shoal.broker.payloads import Payloads
from shoal.errors import PayloadMissing, ShoalError
from shoal.settings import WorkerSettings
from shoal.telemetry.background import background
from shoal.wire.codec import Buffer
from shoal.wire.queue import Unit

#: Of each item, its bytes, or why they cannot be had.
Contents = Sequence[Buffer | ShoalError]
OnContents = Callable[[Contents], None]

#: First and longest pause before looking again for a payload that is not there yet.
PAUSE_S = 0.01
LONGEST_PAUSE_S = 0.5


class Room:
    """Bytes that may be held, given out in the order asked; one that is too large goes alone."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self.held_bytes = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def take(self, count: int) -> None:
        """Wait until `count` bytes fit."""
        place = (count, asyncio.get_running_loop().create_future())
        self._waiting.append(place)
        self._admit()
        try:
            await place[1]
        except asyncio.CancelledError:
            if place in self._waiting:
                self._waiting.remove(place)
                self._admit()
            else:
                self.give(count)
            raise

    def give(self, count: int) -> None:
        """`count` bytes are no longer held."""
        self.held_bytes -= count
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            count, admitted = self._waiting.popleft()
            self.held_bytes += count
            if not admitted.done():
                admitted.set_result(None)

    def _fits(self, count: int) -> bool:
        return not self.held_bytes or self.held_bytes + count <= self._most


class Fetching:
    """What is on its way from the store, or here for units that are not answered."""

    def __init__(self, store: Payloads, settings: WorkerSettings) -> None:
        self._store = store
        self._wait_s = settings.payload_wait_s
        self.room = Room(settings.payload_held_bytes)
        self._held: dict[str, int] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def fetch(self, unit: Unit, on_contents: OnContents) -> None:
        """Give the contents of all items to `on_contents`; at once where none is a payload."""
        if not unit.payloads:
            on_contents(unit.items)
            return
        self._held[unit.id] = 0
        self._tasks[unit.id] = background(self._fetch(unit, on_contents))

    def release(self, unit: str) -> None:
        """The unit is answered or gone: nothing of it is held any more."""
        task = self._tasks.pop(unit, None)
        if task is not None:
            task.cancel()
            self.room.give(self._held.pop(unit))

    async def _fetch(self, unit: Unit, on_contents: OnContents) -> None:
        """Room is taken for the whole unit: two that each hold a part would wait for ever.

        It is given back between two looks: waiting for one unit's payloads holds up no other.
        """
        count = sum(payload.bytes for payload in unit.payloads.values())
        pause_s, until = PAUSE_S, asyncio.get_running_loop().time() + self._wait_s
        while True:
            await self.room.take(count)
            self._held[unit.id] = count
            contents = [await self._content(unit, place) for place in range(len(unit.items))]
            left_s = until - asyncio.get_running_loop().time()
            if left_s <= 0 or not any(isinstance(c, PayloadMissing) for c in contents):
                break
            self._held[unit.id] = 0
            self.room.give(count)
            del contents
            await asyncio.sleep(min(pause_s, left_s))
            pause_s = min(LONGEST_PAUSE_S, 2 * pause_s)
        on_contents(contents)

    async def _content(self, unit: Unit, place: int) -> Buffer | ShoalError:
        payload = unit.payloads.get(place)
        if payload is None:
            return unit.items[place]
        try:
            return await self._store.get(payload.key)
        except PayloadMissing:
            return PayloadMissing(
                f"this item did not reach the payload store within {self._wait_s:g} s: try again"
            )
        except ShoalError as error:
            return error
