"""What one model generates with torch.

A pass computes all its parts together; logits are computed only of the rows from which a text
goes on. Nothing of a sequence depends on what is beside it but the rounding of sums: products over other
numbers of rows add in another order, so that where two tokens are all but equally likely (their logits
closer than about 1e-5 in float32, 1e-2 in bfloat16) either may be chosen.
"""

from __future__ import annotations

from time import perf_counter
from typing import NamedTuple

import msgspec
import numpy as np
import torch

from shoal.errors import ShoalError
from shoal.runtimes.base import OutOfMemory
from shoal.runtimes.generating import generator
from shoal.runtimes.generating.choice import Choice
from shoal.runtimes.generating.generator import Bounds, Part
from shoal.runtimes.generating.sequence import Told
from shoal.runtimes.torch import memory
from shoal.runtimes.torch.families.base import Decoder, Writer
from shoal.runtimes.torch.generating import sizes
from shoal.runtimes.torch.generating.anew import Anew
from shoal.runtimes.torch.generating.arena import Arena, Marks, Range
from shoal.runtimes.torch.generating.images import Images
from shoal.runtimes.torch.generating.keys import Keys
from shoal.runtimes.torch.generating.looking import Looking
from shoal.runtimes.torch.generating.onward import Onward
from shoal.runtimes.torch.generating.parts import Kept, range_of
from shoal.runtimes.torch.generating.sampling import Row, Sampler
from shoal.runtimes.torch.linear import Linear
from shoal.runtimes.torch.media import Takes
from shoal.wire.arrays import to_wire
from shoal.wire.socket import Generate, Load, Sampling


class Decoding(NamedTuple):
    """What a model generates with.

    Attributes:
        logits: rows of hidden states -> those of the next token, [rows, vocabulary].
        dtype: of keys and values.
        takes: the images that it reads among tokens, if it does.
    """

    decoder: Decoder | Writer
    logits: Linear
    dtype: torch.dtype
    takes: Takes | None = None


class Generator(generator.Generator[Range]):
    """Of one loaded model; `bytes`: of all that is beside its weights."""

    def __init__(self, load: Load, decoding: Decoding, device: torch.device) -> None:
        """Raises `ModelLoadFailed` for options that there are not."""
        decoder, self._logits, dtype, takes = decoding
        size = sizes.of(load, decoder, dtype, device)
        self._keys = Keys(decoder.kept, size.places, dtype, device)
        self._images: Images | None = None
        self._way: Anew | Onward
        if isinstance(decoder, Writer):
            self._way = Anew(decoder, self._keys, device)
        else:
            if decoder.seer is not None and takes is not None:
                looking = Looking(decoder.seer, size.rows, size.row_s, device)
                self._images = Images(looking, takes, device)
            self._way = Onward(decoder, self._keys, device, self._images)
        bounds = Bounds(
            decoder.vocabulary,
            load.max_tokens,
            size.places,
            size.rows,
            size.row_s,
            self._way.begin,
        )
        super().__init__("torch", load, bounds)
        self._device, self._takes = device, None if self._images is None else takes
        self._most = min(load.max_tokens, size.places)
        self.bytes = size.bytes
        self._arena = Arena(size.places)
        self._sampler = Sampler(load.sequences, decoder.vocabulary, device)
        self._places = list(range(load.sequences))

    def warm_up(self) -> None:
        """A text of two tokens, behind an image where there is room for one, so that the first sequence
        does not pay for first uses."""
        prompt, inputs = np.zeros(1, np.int32), None
        if (takes := self._takes) is not None and takes.tokens + 2 <= self._most:
            prompt = np.append(np.full(takes.tokens, takes.place, np.int32), prompt)
            inputs = [to_wire(takes.blank()[None])]
        sampling = Sampling(2, temperature=0.0)
        self.begin(Generate(0, self._name, to_wire(prompt), sampling, inputs=inputs))
        while self:
            self.step()

    def begin(self, asked: Generate) -> None:
        """As the base has it; raises `InvalidRequest` also for images that are not those of the prompt."""
        if self._images is None:
            super().begin(asked)
            return
        prompt = self._images.read(asked)
        # The pixels are let go once they were looked at, and not held by what was asked.
        super().begin(msgspec.structs.replace(asked, inputs=None))
        self._images.keep(asked.batch, prompt)

    def _placed(self, sequence: Kept) -> bool:
        if not self._places:
            return False
        before = self._way.before(sequence)
        taken = self._arena.take(before, sequence.room, self._marks(sequence))
        if taken is None:
            return False
        self._keys.copy(taken.source, taken.range.start, taken.reused)
        sequence.range, sequence.place = taken.range, self._places.pop()
        sequence.computed = sequence.cached = taken.reused
        self._sampler.begin(sequence.place, sequence.sampling, before)
        return True

    def _free(self, sequence: Kept) -> None:
        assert sequence.range is not None and sequence.place is not None, "it is under way"
        self._arena.release(sequence.range)
        self._places.append(sequence.place)

    def _leave(self, sequence: Kept) -> None:
        super()._leave(sequence)
        if self._images is not None:
            self._images.drop(sequence.asked.batch)

    def _marks(self, sequence: Kept) -> Marks:
        return {} if self._images is None else self._images.marks(sequence.asked.batch)

    def _look(self, told: list[Told]) -> bool:
        if self._images is None:
            return False
        prompts = [sequence for sequence in self._running if not sequence.length]
        room_s = self._pace.room_s(len(prompts), len(self._running) - len(prompts))
        try:
            with torch.inference_mode():
                return self._images.look(prompts, room_s)
        except (RuntimeError, MemoryError) as error:
            waiting = [s for s in prompts if self._readable(s) < s.prompt]
            told += self._lacking(error, waiting, "to look at images")
            return True

    def _readable(self, sequence: Kept) -> int:
        return sequence.prompt if self._images is None else self._images.readable(sequence)

    def _compute(self, parts: list[Part[Range]], told: list[Told]) -> None:
        try:
            self._pass(parts, told)
        except (RuntimeError, MemoryError) as error:
            going = [part.sequence for part in parts if part.sequence.range is not None]
            told += self._lacking(error, going, f"for a pass of {len(parts)} sequences")

    def _lacking(self, error: Exception, sequences: list[Kept], what: str) -> list[Told]:
        """These end by an error that says there is no memory. Raises any other."""
        if not memory.is_out_of_memory(error):
            raise error
        lacking = OutOfMemory(f"'{self._name}': no memory {what}")
        return [self._fail(sequence, lacking) for sequence in sequences]

    def _pass(self, parts: list[Part[Range]], told: list[Told]) -> None:
        began = perf_counter()
        with torch.inference_mode():
            hidden, ends = self._way.compute(parts)
            going: list[tuple[Kept, Row, int]] = []
            for part, end in zip(parts, ends, strict=True):
                sequence = part.sequence
                sequence.computed = part.stop
                if self._way.begin is None:
                    marks = self._marks(sequence)
                    self._arena.computed(range_of(part), sequence.tokens, part.stop, marks)
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
        self._took(parts, perf_counter() - began)
        for (sequence, _, _), choice in zip(going, choices, strict=True):
            told += self._go_on(sequence, choice)

    def _finished(self) -> list[Choice]:
        """Where nothing is chosen, no copy waits for the device."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        return []


def _row(sequence: Kept) -> Row:
    """What the choice of its next token rests on. Raises `InvalidRequest`, as `Sequence.allowed`."""
    assert sequence.place is not None, "it is under way"
    return Row(sequence.sampling, sequence.place, sequence.length, sequence.allowed())
