"""One sequence that is being generated: what was asked, how far it is, and what is told of it."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Literal

import numpy as np

from shoal.errors import ShoalError, bounded
from shoal.runtimes.grammar import Grammar
from shoal.runtimes.torch.generating.arena import Range
from shoal.runtimes.torch.generating.sampling import Choice, Row
from shoal.wire.arrays import to_wire
from shoal.wire.socket import Chunk, Failed, Generate, Generated, Sampling

#: What `Generates.step` tells.
Told = Chunk | Generated | Failed


@dataclass(slots=True, eq=False)
class Sequence:
    """What was asked, and how far it is.

    Attributes:
        tokens: of the prompt, which has `prompt` of them, and of the text so far.
        most: that are generated.
        place, range: once it has them.
        computed: of its tokens, those whose keys are kept; `cached`: those that others computed.
        seconds: its share of the device's time.
    """

    asked: Generate
    tokens: list[int]
    prompt: int
    most: int
    grammar: Future[Grammar] | None = None
    place: int | None = None
    range: Range | None = None
    computed: int = 0
    cached: int = 0
    seconds: float = 0.0

    @property
    def sampling(self) -> Sampling:
        return self.asked.sampling

    @property
    def length(self) -> int:
        """Of its text so far."""
        return len(self.tokens) - self.prompt

    @property
    def room(self) -> int:
        """Places that it needs; the last token that is generated needs none."""
        return self.prompt + max(self.most - 1, 0)

    def row(self) -> Row:
        """What the choice of its next token rests on. Raises `InvalidRequest`, as `Grammar.allowed`."""
        allowed = None
        if self.grammar is not None:
            allowed = self.grammar.result().allowed(self.sampling.stop)
        assert self.place is not None, "it is under way"
        return Row(self.sampling, self.place, self.length, allowed)

    def go_on(self, choice: Choice) -> list[Told]:
        """What comes of its next token. Raises `InvalidRequest`, as `Grammar.accept`."""
        self.tokens.append(choice.token)
        if choice.token in self.sampling.stop:
            return [self.over("stop")]
        told: list[Told] = [self._chunk(choice)]
        if self.grammar is not None:
            grammar = self.grammar.result()
            grammar.accept(choice.token)
            if grammar.ended:
                return [*told, self.over("stop")]
        return [*told, self.over("length")] if self.length >= self.most else told

    def over(self, finish: Literal["stop", "length", "cancelled"]) -> Generated:
        """It ends here."""
        return Generated(self.asked.batch, finish, self.length, self.seconds, self.cached)

    def failed(self, error: ShoalError) -> Failed:
        """It ends by this."""
        return Failed(error.code, bounded(error.message), self.asked.batch)

    def _chunk(self, choice: Choice) -> Chunk:
        batch, count = self.asked.batch, self.sampling.logprobs
        token = to_wire(np.array([choice.token], np.int32))
        if count < 0:
            return Chunk(batch, token)
        log = to_wire(np.array([choice.log], np.float32))
        ids, logs = choice.top_ids[None, :count], choice.top_logs[None, :count]
        return Chunk(batch, token, log, to_wire(ids), to_wire(logs))
