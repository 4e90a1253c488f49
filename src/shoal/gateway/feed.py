"""What comes of one request's items before all of them are answered, for whoever sends it on.

Decides how much is held for a caller that is slower than the text. What it has not taken yet of an item is
one growth, however many pieces it came in. It must not know HTTP, or units.
"""

from __future__ import annotations

import asyncio

import msgspec

from shoal.errors import ErrorInfo, ReaderTooSlow, ShoalError
from shoal.gateway.growing import Growing, read_generation
from shoal.gateway.replies import Answer, ItemAnswer, items_of
from shoal.tasks.generate.answer import Delta, Said
from shoal.wire.objects import Generation, TokenLogprob
from shoal.wire.queue import Piece


class Growth(msgspec.Struct, frozen=True):
    """What came of an item: more of it, and maybe its end.

    Attributes:
        deltas: in the order in which it was generated; all that had not come before where it ended.
        told: of the tokens that came; empty unless asked for.
        answer: it ended, as this; then it is `whole`, unless it has an error.
    """

    item: int
    deltas: list[Delta] = []
    told: list[TokenLogprob] = []
    answer: ItemAnswer | None = None
    whole: Generation | None = None

    @property
    def text(self) -> str:
        """More of the answer, without what is told beside it."""
        return "".join(delta.text for delta in self.deltas if isinstance(delta, Said))

    @property
    def error(self) -> ErrorInfo | None:
        return None if self.answer is None else self.answer.error


class Feed:
    """One request's; `answers`: of the units that ended."""

    def __init__(self, items: int, most_bytes: int) -> None:
        self._texts = [Growing() for _ in range(items)]
        self._most_bytes = most_bytes
        self._held_bytes = 0
        self._ready: dict[int, None] = {}
        self._ended: dict[int, tuple[ItemAnswer, Generation | None]] = {}
        self._open = items
        self._error: ShoalError | None = None
        self._woken = asyncio.Event()
        self.answers: list[Answer] = []

    @property
    def over(self) -> bool:
        """Whether all items have ended, and were taken."""
        return not self._open

    def add(self, item: int, piece: Piece) -> None:
        """Raises `ProtocolError`; and `ReaderTooSlow`, of which its reader hears too."""
        if item in self._ended or self._error is not None or not self._texts[item].add(piece):
            return
        self._held_bytes += len(piece.told) + sum(len(text.encode()) for text in _texts(piece))
        if self._held_bytes > self._most_bytes:
            error = ReaderTooSlow(
                f"more than {self._most_bytes} bytes of this stream wait to be read "
                f"(max_stream_bytes): read it faster, or ask for the whole without stream"
            )
            self.fail(error)
            raise error
        self._wake(item)

    def end(self, answer: Answer) -> None:
        """A unit was answered."""
        self.answers.append(answer)
        try:
            for item in items_of(answer):
                whole = None if item.error is not None else read_generation(item.told)
                if whole is not None:
                    self._texts[item.position].close(whole)
                self._ended[item.position] = (item, whole)
                self._wake(item.position)
        except ShoalError as error:
            self.fail(error)

    def fail(self, error: ShoalError) -> None:
        """Nothing more comes; the first error counts."""
        if self._error is None:
            self._error = error
        self._woken.set()

    async def next(self, within_s: float) -> list[Growth]:
        """What came since it was asked last, or comes first; nothing if that is not `within_s`.

        Raises:
            ShoalError: the request failed; what came, and nobody took, is dropped.
        """
        if not self._woken.is_set():
            try:
                async with asyncio.timeout(within_s):
                    await self._woken.wait()
            except TimeoutError:
                return []
        self._woken.clear()
        if self._error is not None:
            raise self._error
        ready, self._ready, self._held_bytes = self._ready, {}, 0
        return [self._growth(item) for item in ready]

    def _growth(self, item: int) -> Growth:
        deltas, told = self._texts[item].taken()
        if item not in self._ended:
            return Growth(item, deltas, told)
        self._open -= 1
        return Growth(item, deltas, told, *self._ended[item])

    def _wake(self, item: int) -> None:
        self._ready[item] = None
        self._woken.set()


def _texts(piece: Piece) -> tuple[str, ...]:
    return piece.text, piece.reasoning, piece.call.text if piece.call else ""
