"""What one GGUF file generates: who has a place, what a pass computes, and what comes of it.

As the torch runtime's, with the keys in llama.cpp's hands: sequences share one store of them, and one that
ended keeps its own there until the room is needed, so that a prompt which begins alike computes only
what is new.
"""

from __future__ import annotations

from collections import deque
from pathlib import Path
from time import perf_counter

from shoal.errors import ModelOutputInvalid, ShoalError
from shoal.runtimes.generating.asked import check
from shoal.runtimes.generating.pace import Pace
from shoal.runtimes.generating.sequence import (
    Sequence,
    Told,
    ended,
    too_large,
    wait_for_grammars,
)
from shoal.runtimes.gguf.choosing import Chooser
from shoal.runtimes.gguf.keys import Keys
from shoal.runtimes.gguf.library import Context, Row
from shoal.runtimes.grammar import Grammars
from shoal.wire.socket import Generate, Generated, Load

#: Where its keys are is llama.cpp's business.
Own = Sequence[None]
#: First guess of the seconds that a row takes.
_ROW_S = 2e-3


class Generator:
    """Of one loaded file."""

    def __init__(self, load: Load, context: Context, places: int, rows: int) -> None:
        """`places`: for tokens of all sequences; `rows`: of a pass, at most."""
        self._name, self._max_tokens = load.model, min(load.max_tokens, context.max_tokens)
        self._context, self._rows = context, rows
        self._keys = Keys(context, load.sequences, places)
        self._grammars = Grammars(Path(load.path) / "tokenizer.json", context.vocabulary)
        self._pace = Pace(_ROW_S, rows - load.sequences)
        self._waiting: deque[Own] = deque()
        self._running: list[Own] = []
        self._choosers: dict[int, Chooser] = {}

    def __len__(self) -> int:
        return len(self._waiting) + len(self._running)

    def close(self) -> None:
        """Nothing is generated any more."""
        self._grammars.close()
        self._context.close()

    def begin(self, asked: Generate) -> None:
        """Raises `InvalidRequest` for what cannot be generated, `OutOfMemory` for what never fits."""
        prompt = check(asked, "gguf", self._context.vocabulary, self._max_tokens)
        most = min(asked.sampling.new_tokens, self._max_tokens - len(prompt))
        sequence: Own = Sequence(asked, prompt, len(prompt), most)
        if sequence.room > self._keys.places:
            raise too_large(sequence, self._keys.places)
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
        parts = self._parts()
        if parts:
            return told + self._compute(parts)
        if not told:
            wait_for_grammars(self._waiting)
        return told

    def _admit(self) -> list[Told]:
        """Those that waited and have a place now, in the order that they came."""
        told: list[Told] = []
        for sequence in list(self._waiting):
            try:
                if not sequence.may_begin:
                    continue
            except ShoalError as error:  # its grammar is none
                self._leave(sequence)
                told.append(sequence.failed(error))
                continue
            if sequence.most == 0:
                self._leave(sequence)
                told.append(sequence.over("length"))
                continue
            taken = self._keys.take(sequence.tokens, sequence.room)
            if taken is None:
                break
            sequence.place, sequence.computed = taken
            sequence.cached = sequence.computed
            self._choosers[sequence.place] = Chooser(sequence.sampling, sequence.tokens)
            self._waiting.remove(sequence)
            self._running.append(sequence)
        return told

    def _parts(self) -> list[tuple[Own, int]]:
        """Up to which of its tokens each is computed: texts, then prompts, the first first."""
        texts = [sequence for sequence in self._running if sequence.length]
        parts = [(text, len(text.tokens)) for text in texts]
        room = self._pace.rows(beside=bool(texts))
        for sequence in self._running:
            if not sequence.length and room:
                stop = min(sequence.prompt, sequence.computed + room)
                room -= stop - sequence.computed
                parts.append((sequence, stop))
        return parts

    def _compute(self, parts: list[tuple[Own, int]]) -> list[Told]:
        began = perf_counter()
        rows: list[Row] = []
        going: list[tuple[Own, int]] = []
        counts: list[int] = []
        texts = sum(1 for sequence, _ in parts if sequence.length)
        for sequence, stop in parts:
            assert sequence.place is not None, "it is under way"
            last = stop == len(sequence.tokens)
            counts.append(stop - sequence.computed)
            for at in range(sequence.computed, stop):
                wanted = last and at == stop - 1
                rows.append(Row(sequence.tokens[at], at, sequence.place, wanted))
            if last:
                going.append((sequence, len(rows) - 1))
        self._keys.compute(rows)
        for (sequence, stop), _ in zip(parts, counts, strict=True):
            sequence.computed = stop
        told = [message for sequence, row in going for message in self._go_on(sequence, row)]
        seconds = perf_counter() - began
        self._pace.measured(texts, len(rows) - texts, seconds)
        for (sequence, _), count in zip(parts, counts, strict=True):
            sequence.seconds += seconds * count / len(rows)
        return told

    def _go_on(self, sequence: Own, row: int) -> list[Told]:
        """The next token of this one, by the logits of a row of the pass."""
        assert sequence.place is not None, "it is under way"
        try:
            logits = self._context.logits(row)
            choice = self._choosers[sequence.place].choose(logits, sequence.allowed())
            if not choice.sound:
                raise ModelOutputInvalid(
                    f"'{self._name}' gave no number for its next token, or none was allowed"
                )
            told = sequence.go_on(choice)
        except ShoalError as error:
            told = [sequence.failed(error)]
        if ended(told):
            self._leave(sequence)
        return told

    def _leave(self, sequence: Own) -> None:
        """Its place is free at once; what it computed stays while nobody needs the room."""
        if sequence.place is None:
            self._waiting.remove(sequence)
            return
        self._running.remove(sequence)
        del self._choosers[sequence.place]
        self._keys.leave(sequence.place, sequence.tokens[: sequence.computed])
        sequence.place = None
