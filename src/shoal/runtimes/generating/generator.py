"""What one model generates, whichever library computes it: who has a place, what a pass is of, what comes of it.

A pass takes the newest token of each text and, as far as `pace` allows, tokens of prompts. Where keys are
kept, and how logits become a token, is the runtime's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from shoal.errors import ModelOutputInvalid, ShoalError
from shoal.runtimes.generating.asked import check
from shoal.runtimes.generating.choice import Choice
from shoal.runtimes.generating.pace import Pace
from shoal.runtimes.generating.sequence import (
    Sequence,
    Told,
    ended,
    too_large,
    wait_for_grammars,
)
from shoal.runtimes.grammar import Grammars
from shoal.wire.socket import Generate, Generated, Load

R = TypeVar("R")


class Part(NamedTuple, Generic[R]):
    """Of a sequence, its tokens [start, stop), computed in one pass."""

    sequence: Sequence[R]
    start: int
    stop: int

    @property
    def rows(self) -> int:
        return self.stop - self.start

    @property
    def goes_on(self) -> bool:
        """Whether a token follows these."""
        return self.stop == len(self.sequence.tokens)


class Bounds(NamedTuple):
    """Of a model.

    Attributes:
        vocabulary: ids are below it.
        max_tokens: of a sequence, its text included; or of a prompt and of a text, where texts begin anew.
        places: for keys of all sequences together.
        rows: of prompts in a pass, at most; `row_s`: a first guess of what one takes.
        begin: the token that texts begin with, where they begin anew and prompts are read whole; None:
            texts go on with their prompts.
    """

    vocabulary: int
    max_tokens: int
    places: int
    rows: int
    row_s: float
    begin: int | None = None


class Generator(ABC, Generic[R]):
    """Of one loaded model; false while nothing is under way."""

    def __init__(self, kind: str, load: Load, bounds: Bounds) -> None:
        """`kind`: of the runtime."""
        self.threads = load.threads
        self._kind, self._name, self._bounds = kind, load.model, bounds
        self._grammars = Grammars(Path(load.path) / "tokenizer.json", bounds.vocabulary)
        self._pace = Pace(bounds.row_s, bounds.rows)
        self._waiting: deque[Sequence[R]] = deque()
        self._running: list[Sequence[R]] = []

    def __len__(self) -> int:
        return len(self._waiting) + len(self._running)

    def close(self) -> None:
        """Nothing is generated any more."""
        self._grammars.close()

    def begin(self, asked: Generate) -> None:
        """Raises `InvalidRequest` for what cannot be generated, `OutOfMemory` for what never fits."""
        bounds = self._bounds
        anew = bounds.begin is not None
        prompt = check(asked, self._kind, bounds.vocabulary, bounds.max_tokens, anew=anew)
        room = bounds.max_tokens if anew else bounds.max_tokens - len(prompt)
        tokens = prompt if bounds.begin is None else [*prompt, bounds.begin]
        most = min(asked.sampling.new_tokens, room)
        sequence: Sequence[R] = Sequence(asked, tokens, len(tokens), most)
        if sequence.room > bounds.places:
            raise too_large(sequence, bounds.places)
        sequence.ask(self._grammars)
        self._waiting.append(sequence)

    def end(self, batch: int) -> Generated:
        """End a sequence, wherever it is; of one that a broken pass ended nothing is known."""
        for sequence in [*self._running, *self._waiting]:
            if sequence.asked.batch == batch:
                self._leave(sequence)
                return sequence.over("cancelled")
        return Generated(batch, "cancelled", 0, 0.0)

    def step(self) -> list[Told]:
        """One pass, and what came of it."""
        told = self._admit()
        looked = self._look(told)
        parts = self._parts(reads=not looked)
        if parts:
            self._compute(parts, told)
        elif not (told or looked):
            wait_for_grammars(self._waiting)
        return told

    @abstractmethod
    def _placed(self, sequence: Sequence[R]) -> bool:
        """Give it a place, and what is computed already; False while there is none."""

    @abstractmethod
    def _free(self, sequence: Sequence[R]) -> None:
        """Its place is free at once."""

    @abstractmethod
    def _compute(self, parts: list[Part[R]], told: list[Told]) -> None:
        """One pass, of which `_took` and `_go_on` are told; what came of it is added to `told`."""

    def _look(self, told: list[Told]) -> bool:
        """Do a part of what prompts need before they can be read on, if they need more than their tokens;
        whether anything was done, so that this pass reads none. What came of it is added to `told`."""
        return False

    def _readable(self, sequence: Sequence[R]) -> int:
        """How far its prompt can be read now."""
        return sequence.prompt

    def _admit(self) -> list[Told]:
        """Those that waited and have a place now, in the order that they came."""
        told: list[Told] = []
        for sequence in list(self._waiting):
            try:
                if not sequence.may_begin:
                    continue
            except ShoalError as error:  # its grammar is none
                told.append(self._fail(sequence, error))
                continue
            if sequence.most == 0:
                self._leave(sequence)
                told.append(sequence.over("length"))
            elif self._placed(sequence):
                self._waiting.remove(sequence)
                self._running.append(sequence)
            else:
                break
        return told

    def _parts(self, *, reads: bool) -> list[Part[R]]:
        """The newest tokens of texts, then, where it `reads`, those of prompts, the first first."""
        texts = [s for s in self._running if s.length]
        parts = [Part(text, text.computed, len(text.tokens)) for text in texts]
        if not reads:
            return parts
        prompts = [s for s in self._running if not s.length]
        room = self._pace.rows(len(prompts), len(texts))
        return parts + (self._pieces if self._bounds.begin is None else _whole)(prompts, room)

    def _pieces(self, sequences: list[Sequence[R]], room: int) -> list[Part[R]]:
        """Of these prompts, so many tokens."""
        parts = []
        for sequence in sequences:
            start = sequence.computed
            stop = min(self._readable(sequence), start + room)
            if stop > start:
                parts.append(Part(sequence, start, stop))
                room -= stop - start
        return parts

    def _took(self, parts: list[Part[R]], seconds: float) -> None:
        """These were computed together, and what follows them was chosen."""
        rows = sum(part.rows for part in parts)
        for part in parts:
            part.sequence.seconds += seconds * part.rows / rows
        texts = sum(part.rows for part in parts if part.start >= part.sequence.prompt)
        self._pace.measured(texts, rows - texts, seconds)

    def _go_on(self, sequence: Sequence[R], choice: Choice) -> list[Told]:
        """What comes of its next token."""
        try:
            if not choice.sound:
                raise ModelOutputInvalid(
                    f"'{self._name}' gave no number for its next token, or none was allowed"
                )
            told = sequence.go_on(choice)
        except ShoalError as error:
            return [self._fail(sequence, error)]
        if ended(told):
            self._leave(sequence)
        return told

    def _fail(self, sequence: Sequence[R], error: ShoalError) -> Told:
        self._leave(sequence)
        return sequence.failed(error)

    def _leave(self, sequence: Sequence[R]) -> None:
        if sequence.place is None:
            self._waiting.remove(sequence)
            return
        self._running.remove(sequence)
        self._free(sequence)
        sequence.range = sequence.place = None


def _whole(sequences: list[Sequence[R]], room: int) -> list[Part[R]]:
    """Of these prompts, as many as there is room for; the first whatever its length."""
    parts: list[Part[R]] = []
    for sequence in sequences:
        if parts and sequence.prompt > room:
            break
        parts.append(Part(sequence, 0, sequence.prompt))
        room -= sequence.prompt
    return parts
