"""The generators of a process take turns: a pass of one model that has sequences, then of the next."""

from __future__ import annotations

from collections import deque
from typing import Any

from shoal.runtimes.generating.generator import Generator
from shoal.runtimes.generating.sequence import Told
from shoal.wire.socket import Failed, Generate, Generated


class Turns:
    """Of all sequences that are under way, by their numbers."""

    def __init__(self) -> None:
        self._of: dict[int, Generator[Any]] = {}
        self._order: deque[Generator[Any]] = deque()

    def begin(self, asked: Generate, generator: Generator[Any]) -> None:
        """Raises what the generator has against it."""
        generator.begin(asked)
        self._of[asked.batch] = generator
        if generator not in self._order:
            self._order.append(generator)

    def next(self) -> Generator[Any] | None:
        """Whose turn it is."""
        while self._order and not self._order[0]:
            self._order.popleft()
        self._order.rotate(-1)
        return self._order[-1] if self._order else None

    def told(self, messages: list[Told]) -> list[Told]:
        """What a pass told, of which the sequences are forgotten that are over."""
        for message in messages:
            if isinstance(message, Generated | Failed) and message.batch is not None:
                del self._of[message.batch]
        return messages

    def end(self, batch: int) -> Generated:
        """End this one."""
        return self._of.pop(batch).end(batch)
