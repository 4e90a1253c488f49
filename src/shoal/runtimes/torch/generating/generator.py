"""What one model generates: who has a place, what a pass computes, and what comes of it.

A pass takes the newest token of each text and, as far as `pace` allows, tokens of prompts, all in one
packed forward pass; logits are computed only of the rows from which a text goes on. Nothing of a sequence
depends on what is beside it but the rounding of sums: products over other numbers of rows add in another
order, so that where two tokens are all but equally likely (their logits closer than about 1e-5 in
float32, 1e-2 in bfloat16) either may be chosen.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from shoal.errors import ModelOutputInvalid, ShoalError
from shoal.runtimes.base import OutOfMemory
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
from shoal.runtimes.torch import memory
from shoal.runtimes.torch.families.base import Decoder
from shoal.runtimes.torch.generating import sizes
from shoal.runtimes.torch.generating.arena import Arena, Range
from shoal.runtimes.torch.generating.keys import Keys, Pass, Span
from shoal.runtimes.torch.generating.sampling import Row, Sampler
from shoal.runtimes.torch.linear import Linear
from shoal.runtimes.torch.packed import rounded
from shoal.wire.arrays import to_wire
from shoal.wire.socket import Generate, Generated, Load, Sampling

#: One whose keys are in a range of the store.
Kept = Sequence[Range]


class Decoding(NamedTuple):
    """What a model generates with.

    Attributes:
        logits: rows of hidden states -> those of the next token, [rows, vocabulary].
        dtype: of keys and values.
    """

    decoder: Decoder
    logits: Linear
    dtype: torch.dtype


class Part(NamedTuple):
    """Of a sequence, its tokens [start, stop), computed in one pass."""

    sequence: Kept
    start: int
    stop: int

    @property
    def rows(self) -> int:
        return self.stop - self.start

    @property
    def goes_on(self) -> bool:
        """Whether a token follows these."""
        return self.stop == len(self.sequence.tokens)


class Generator:
    """Of one loaded model; `bytes`: of all that is beside its weights."""

    def __init__(self, load: Load, decoding: Decoding, device: torch.device) -> None:
        """Raises `ModelLoadFailed` for options that there are not."""
        self._decoder, self._logits, dtype = decoding
        self._name, self._max_tokens, self._device = load.model, load.max_tokens, device
        self.threads = load.threads
        vocabulary = self._decoder.vocabulary
        size = sizes.of(load, self._decoder, dtype, device)
        self.bytes = size.bytes
        self._arena = Arena(size.places)
        self._keys = Keys(self._decoder.kept, size.places, dtype, device)
        self._sampler = Sampler(load.sequences, vocabulary, device)
        self._grammars = Grammars(Path(load.path) / "tokenizer.json", vocabulary)
        self._pace = Pace(size.row_s, size.rows)
        self._free = list(range(load.sequences))
        self._waiting: deque[Kept] = deque()
        self._running: list[Kept] = []

    def __len__(self) -> int:
        return len(self._waiting) + len(self._running)

    def close(self) -> None:
        """Nothing is generated any more."""
        self._grammars.close()

    def warm_up(self) -> None:
        """A text of two tokens, so that the first sequence does not pay for first uses."""
        prompt = to_wire(np.zeros(1, np.int32))
        self.begin(Generate(0, self._name, prompt, Sampling(2, temperature=0.0)))
        while self:
            self.step()

    def begin(self, asked: Generate) -> None:
        """Raises `InvalidRequest` for what cannot be generated, `OutOfMemory` for what never fits."""
        prompt = check(asked, "torch", self._decoder.vocabulary, self._max_tokens)
        most = min(asked.sampling.new_tokens, self._max_tokens - len(prompt))
        sequence: Kept = Sequence(asked, prompt, len(prompt), most)
        if sequence.room > self._arena.places:
            raise too_large(sequence, self._arena.places)
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
        if not parts:
            if not told:
                wait_for_grammars(self._waiting)
            return told
        try:
            self._compute(parts, told)
        except (RuntimeError, MemoryError) as error:
            if not memory.is_out_of_memory(error):
                raise
            lacking = OutOfMemory(f"'{self._name}': no memory for a pass of {len(parts)} sequences")
            going = [part.sequence for part in parts if part.sequence.range is not None]
            told += [self._fail(sequence, lacking) for sequence in going]
        return told

    def _admit(self) -> list[Told]:
        """Those that waited and have a place now, in the order that they came."""
        told: list[Told] = []
        for sequence in list(self._waiting):
            try:
                if not sequence.may_begin:
                    continue
            except ShoalError as error:
                told.append(self._fail(sequence, error))
                continue
            if sequence.most == 0:
                told.append(sequence.over("length"))
                self._leave(sequence)
            elif not self._placed(sequence):
                break
        return told

    def _placed(self, sequence: Kept) -> bool:
        if not self._free:
            return False
        taken = self._arena.take(sequence.tokens, sequence.room)
        if taken is None:
            return False
        self._keys.copy(taken.source, taken.range.start, taken.reused)
        sequence.range, sequence.place = taken.range, self._free.pop()
        sequence.computed = sequence.cached = taken.reused
        self._sampler.begin(sequence.place, sequence.sampling, sequence.tokens)
        self._waiting.remove(sequence)
        self._running.append(sequence)
        return True

    def _parts(self) -> list[Part]:
        """The newest tokens of texts, then those of prompts, the first first."""
        texts = [s for s in self._running if s.length]
        parts = [Part(text, text.computed, len(text.tokens)) for text in texts]
        room = self._pace.rows(beside=bool(texts))
        for sequence in self._running:
            if not sequence.length and room:
                stop = min(sequence.prompt, sequence.computed + room)
                parts.append(Part(sequence, sequence.computed, stop))
                room -= stop - sequence.computed
        return parts

    def _compute(self, parts: list[Part], told: list[Told]) -> None:
        began = perf_counter()
        with torch.inference_mode():
            hidden, ends = self._forward(parts)
            going: list[tuple[Kept, Row, int]] = []
            for part, end in zip(parts, ends, strict=True):
                sequence = part.sequence
                sequence.computed = part.stop
                assert sequence.range is not None, "it is under way"
                self._arena.computed(sequence.range, sequence.tokens, part.stop)
                if part.goes_on:
                    try:
                        going.append((sequence, _row(sequence), end - 1))
                    except ShoalError as error:
                        told.append(self._fail(sequence, error))
            if going:
                last = torch.tensor([end for _, _, end in going]).to(self._device)
                logits = self._logits(hidden.index_select(0, last)).float()
                choices = self._sampler.choose(logits, [row for _, row, _ in going])
            else:
                choices = self._finished()
        self._share(parts, perf_counter() - began)
        for (sequence, _, _), choice in zip(going, choices, strict=True):
            try:
                if not choice.sound:
                    raise ModelOutputInvalid(
                        f"'{self._name}' gave no number for its next token, or none was allowed"
                    )
                said = sequence.go_on(choice)
            except ShoalError as error:
                told.append(self._fail(sequence, error))
                continue
            told += said
            if ended(said):
                self._leave(sequence)

    def _forward(self, parts: list[Part]) -> tuple[Tensor, list[int]]:
        """Hidden states [computed, width], and where the rows of each part end."""
        ends = np.cumsum([part.rows for part in parts]).tolist()
        filled = np.zeros((2, rounded(ends[-1])), np.int64)
        spans = []
        for part, end in zip(parts, ends, strict=True):
            sequence, rows = part.sequence, slice(end - part.rows, end)
            filled[0, rows] = sequence.tokens[part.start : part.stop]
            filled[1, rows] = np.arange(part.start, part.stop)
            assert sequence.range is not None, "it is under way"
            spans.append(Span(rows, sequence.range.start, part.start))
        tokens, positions = torch.from_numpy(filled).to(self._device, non_blocking=True)
        over = Pass(tokens, positions, spans)
        layers = range(len(self._decoder.kept))
        attends = [partial(self._keys.attend, number, over=over) for number in layers]
        return self._decoder.carry_on(tokens, positions, attends), ends

    def _share(self, parts: list[Part], seconds: float) -> None:
        rows = sum(part.rows for part in parts)
        for part in parts:
            part.sequence.seconds += seconds * part.rows / rows
        texts = sum(part.rows for part in parts if part.start >= part.sequence.prompt)
        self._pace.measured(texts, rows - texts, seconds)

    def _finished(self) -> list[Choice]:
        """Where nothing is chosen, no copy waits for the device."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        return []

    def _fail(self, sequence: Kept, error: ShoalError) -> Told:
        self._leave(sequence)
        return sequence.failed(error)

    def _leave(self, sequence: Kept) -> None:
        """Its place and its range are free at once."""
        if sequence.range is None or sequence.place is None:
            self._waiting.remove(sequence)
            return
        self._running.remove(sequence)
        self._arena.release(sequence.range)
        self._free.append(sequence.place)
        sequence.range = sequence.place = None


def _row(sequence: Kept) -> Row:
    """What the choice of its next token rests on. Raises `InvalidRequest`, as `Sequence.allowed`."""
    assert sequence.place is not None, "it is under way"
    return Row(sequence.sampling, sequence.place, sequence.length, sequence.allowed())
