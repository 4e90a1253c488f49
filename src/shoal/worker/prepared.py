"""What preparing makes of an item, and how its rows become its answer. Values only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from shoal.errors import ShoalError
from shoal.tasks.encode import Item
from shoal.tasks.generate.answer import Delta
from shoal.tasks.outputs import Rows
from shoal.values import Params
from shoal.wire.objects import TokenLogprob
from shoal.wire.socket import Generated, Sampling

Ids = NDArray[np.int32]
#: What an item is answered with: outputs, or an object in MessagePack.
Answer = Rows | bytes

#: What becomes of the rows of an item's sequences, and of those that stand beside all items of the
#: unit: its query's, its labels'. Pure, and slow enough for a thread. Raises `ShoalError` where these
#: rows answer nothing.
Finish = Callable[[Sequence[Rows], Sequence[Rows]], Answer]


class Told(NamedTuple):
    """What is told of some tokens, as `wire.socket.Chunk` has it."""

    logprobs: NDArray[np.float32]  # [n]
    top_ids: Ids  # [n, k]
    top_logprobs: NDArray[np.float32]  # [n, k]


class Written(NamedTuple):
    """What some tokens add to a text.

    Attributes:
        deltas: what is sure: no part of a character, of a text that ends it, or of a tag.
        told: of the tokens, where that was asked for.
        ended: one of the texts that end it came; nothing more is taken in.
    """

    deltas: list[Delta]
    told: list[TokenLogprob]
    ended: bool = False


class Writing(Protocol):
    """One text that is being generated: its tokens become characters. Pure, and fast enough for the
    event loop."""

    def add(self, ids: Ids, told: Told | None) -> Written:
        """The next tokens."""
        ...

    def end(self, over: Generated) -> bytes:
        """The whole, a `wire.objects.Generation` in MessagePack; what was held back is in it, too."""
        ...


class Prepared(msgspec.Struct, frozen=True):
    """One item ready for a batch: token ids [n] int32, or the text or the bytes of a file, for
    runtimes that take those.

    Attributes:
        length: tokens, of all its sequences.
        split: of two texts, how many of the ids are the first's with its special tokens.
        seen: how many of the ids others attend to, the first ones; 0: all.
        marks: [n] uint8, which ids stand for words and labels, as `Run.marks` has it; None: none.
        input: what a file was decoded to, as `Run.inputs` takes it; then there are no ids.
        parts: the sequences that it needs, where those are several; then it is none itself. Each
            may run in a batch of its own.
        finish: how its rows become its answer; None: as `tasks.outputs` has it, batch by batch.
        begin, temperature: of sound that is transcribed, as `Run` has them.
        sampling: how the text is generated that follows the ids; `write` makes what is read of it, anew
            each time it is begun.
        answer: what needs no runtime is answered with; then it is no sequence.
    """

    ids: Ids | None = None
    text: str | None = None
    media: bytes | None = None
    length: int = 0
    truncated: bool = False
    split: int = 0
    input: NDArray[Any] | None = None
    parts: tuple[Prepared, ...] = ()
    finish: Finish | None = None
    seen: int = 0
    answer: bytes | None = None
    marks: NDArray[np.uint8] | None = None
    begin: Ids | None = None
    temperature: float | None = None
    sampling: Sampling | None = None
    write: Callable[[], Writing] | None = None

    @property
    def runs(self) -> int:
        """Its tokens that a runtime computes."""
        return self.length if self.answer is None else 0

    @property
    def sequences(self) -> tuple[Prepared, ...]:
        """What a runtime sees of it."""
        return self.parts or (self,)

    @property
    def decoded(self) -> bool:
        """Whether it is a file, or has one in it, that was decoded."""
        return any(part.input is not None for part in self.sequences)


def several(parts: list[Prepared], finish: Finish, *, truncated: bool | None = None) -> Prepared:
    """An item of these sequences, at least one; cut if one of them was, unless `truncated` says."""
    return Prepared(
        length=sum(part.length for part in parts),
        truncated=any(part.truncated for part in parts) if truncated is None else truncated,
        parts=tuple(parts),
        finish=finish,
    )


class Preparer(Protocol):
    """How the items of one model are prepared for its runtime.

    Attributes:
        slow: whether a few bytes may take long, so that no short text must wait for them.
    """

    slow: bool

    @property
    def probe(self) -> Item:
        """An item that costs next to nothing."""
        ...

    def prepare(
        self, items: list[Item], params: Params, query: Item | None = None
    ) -> list[Prepared | ShoalError]:
        """Each item ready for a batch, or its error.

        `query`: of a score unit. What all items need (the query, labels) and is sequences of its own
        comes after the items, as one more.
        Raises `ShoalError` where what was asked can be done of no item.
        """
        ...
