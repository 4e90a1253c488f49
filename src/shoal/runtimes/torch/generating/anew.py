"""Texts that begin anew, after a prompt that an encoder read: T5's.

A prompt is read whole, once, in the pass that writes its first token. Of each of its tokens the decoder keeps
keys and values as wide as those of a token of the text. So both lie in one range of the store: first
those of the prompt, then those of the text, which begins with a token of its own.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from torch import Tensor

from shoal.runtimes.generating.generator import Part
from shoal.runtimes.torch.families.base import Writer
from shoal.runtimes.torch.generating.arena import Range
from shoal.runtimes.torch.generating.keys import Keys, Pass, Span, flat
from shoal.runtimes.torch.generating.parts import Kept, range_of
from shoal.runtimes.torch.packed import pack, rounded


class Anew:
    """Instead of `Onward`, whose methods these are."""

    def __init__(self, writer: Writer, keys: Keys, device: torch.device) -> None:
        self.begin = writer.begin
        self._writer, self._keys, self._device = writer, keys, device

    @staticmethod
    def before(sequence: Kept) -> list[int]:
        """What was read is no part of what is written, and of another's that began alike nothing can be
        used: each of its tokens was read in the light of those after it."""
        return sequence.tokens[sequence.prompt - 1 : sequence.prompt]

    def compute(self, parts: list[Part[Range]]) -> tuple[Tensor, list[int]]:
        """Hidden states [computed, width], of which each part has one row."""
        if unread := [part for part in parts if part.start == 0]:
            self._read(unread)
        count = len(parts)
        filled = np.zeros(rounded(count), np.int64)
        filled[:count] = [part.sequence.tokens[-1] for part in parts]
        said, read = [], []
        for number, part in enumerate(parts):
            sequence, place = part.sequence, range_of(part).start
            row, length = slice(number, number + 1), sequence.prompt - 1
            said.append(Span(row, place + length, sequence.length))
            # Its row stands at the end of what was read, and sees all of it.
            read.append(Span(row, place, length - 1))
        tokens = torch.from_numpy(filled).to(self._device, non_blocking=True)
        over, beside = Pass(said, self._device), Pass(read, self._device)
        layers, keys, looking = range(len(self._writer.kept)), self._keys, self._writer.looking
        attends = [partial(keys.attend, number, over=over) for number in layers]
        looks = [partial(keys.look, number, over=beside, attention=looking) for number in layers]
        return self._writer.write(tokens, attends, looks), list(range(1, count + 1))

    def _read(self, parts: list[Part[Range]]) -> None:
        """All of these prompts in one pass of the encoder."""
        prompts = [np.array(part.sequence.tokens[:-1], np.int32) for part in parts]
        lengths = np.array([len(prompt) for prompt in prompts])
        (packed,) = pack(
            np.concatenate(prompts),
            lengths,
            np.arange(len(parts)),
            pass_tokens=int(lengths.sum()),
            device=self._device,
        )
        order = packed.rows.tolist()
        places = flat([(range_of(parts[at]).start, int(lengths[at])) for at in order], self._device)
        hidden = self._writer.encoder.forward(packed)
        for number, (key, value) in enumerate(self._writer.read(hidden)):
            self._keys.keep(number, key, value, places)
