"""One sequence that is being generated: what was asked, how far it is, and what is told of it."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from shoal.errors import ShoalError, bounded
from shoal.runtimes.base import OutOfMemory
from shoal.runtimes.generating.choice import Choice
from shoal.runtimes.grammar import Grammar, Grammars
from shoal.wire.arrays import to_wire
from shoal.wire.socket import Chunk, Failed, Generate, Generated, Sampling

#: What `Generates.step` tells.
Told = Chunk | Generated | Failed
#: A grammar that takes no longer is refused where its sequence begins, and no pass waits for one.
QUICK_S = 0.02

R = TypeVar("R")


@dataclass(slots=True, eq=False)
class Sequence(Generic[R]):
    """What was asked, and how far it is.

    Attributes:
        tokens: of the prompt, which has `prompt` of them, and of the text so far. Where a text begins
            anew, the token that it begins with is the last of the prompt.
        most: that are generated.
        place, range: once it has them; the latter is where its keys are, if the runtime knows.
        computed: of its tokens, those whose keys are kept; `cached`: those that others computed.
        seconds: its share of the device's time.
    """

    asked: Generate
    tokens: list[int]
    prompt: int
    most: int
    grammar: Future[Grammar] | None = None
    place: int | None = None
    range: R | None = None
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

    def ask(self, grammars: Grammars) -> None:
        """Have its grammar compiled. Raises `InvalidRequest` for one that is seen to be none at once."""
        if self.sampling.grammar is not None:
            self.grammar = grammars.of(*self.sampling.grammar)
            wait([self.grammar], QUICK_S)
            if self.grammar.done():
                self.grammar.result()

    @property
    def may_begin(self) -> bool:
        """Whether its grammar is ready. Raises `InvalidRequest` for one that is none."""
        if self.grammar is None:
            return True
        if not self.grammar.done():
            return False
        self.grammar.result()
        return True

    def allowed(self) -> NDArray[np.bool_] | None:
        """The ids that may come next; None: any. Raises `InvalidRequest`, as `Grammar.allowed`."""
        return None if self.grammar is None else self.grammar.result().allowed(self.sampling.stop)

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


def wait_for_grammars(sequences: Iterable[Sequence[R]]) -> None:
    """A moment, where nothing else is to be done."""
    pending = [s.grammar for s in sequences if s.grammar is not None]
    wait(pending, QUICK_S, return_when=FIRST_COMPLETED)


def ended(told: list[Told]) -> bool:
    """Whether this is the last that is told of a sequence."""
    return bool(told) and isinstance(told[-1], Generated | Failed)


def too_large(sequence: Sequence[R], places: int) -> OutOfMemory:
    """That it can never have room."""
    name, most, (prompt,) = sequence.asked.model, sequence.most, sequence.asked.tokens.shape
    return OutOfMemory(
        f"{prompt} tokens and {most} new ones need {sequence.room} places; '{name}' has {places} for keys: "
        "ask for fewer new tokens, or give it more by the option `cache_tokens` of its profile"
    )
