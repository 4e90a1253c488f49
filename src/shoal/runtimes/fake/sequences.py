"""What the fake runtime generates: its prompt again and again, or as the seed of a draw decides.

At temperature 0 the token at a place is the prompt's at that place, from the beginning again where it
ends; else one of the prompt's, drawn. Where the prompt has one of the `stop` ids, the text ends.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from shoal.errors import ComputeFailed, InvalidRequest
from shoal.runtimes.drawing import drawn
from shoal.runtimes.fake.options import FakeOptions
from shoal.wire.arrays import Array, from_wire, to_wire
from shoal.wire.socket import Chunk, Failed, Generate, Generated


@dataclass(slots=True)
class _Sequence:
    asked: Generate
    options: FakeOptions
    prompt: list[int]
    text: list[int] = field(default_factory=list)
    seconds: float = 0.0

    def next(self) -> int:
        place, sampling = len(self.text), self.asked.sampling
        if sampling.temperature > 0:
            place = int(drawn(sampling.seed, place) * len(self.prompt))
        return self.prompt[place % len(self.prompt)]


class FakeSequences:
    """Those that were begun; of each model as many at once as it was loaded for, the first first."""

    def __init__(self) -> None:
        self._all: dict[int, _Sequence] = {}

    def begin(self, asked: Generate, options: FakeOptions, sequences: int) -> None:
        """Raises `InvalidRequest` for a prompt without tokens, or a model that generates nothing."""
        prompt = from_wire(asked.tokens).tolist()
        if not prompt:
            raise InvalidRequest("the prompt has no tokens")
        if not sequences:
            raise InvalidRequest(f"'{asked.model}' was loaded to generate nothing")
        _take_down(prompt, options)
        self._all[asked.batch] = _Sequence(asked, options, prompt)

    def step(self, places: dict[str, int]) -> list[Chunk | Generated | Failed]:
        """A token of each that has a place. `places`: of each model."""
        start, left = time.perf_counter(), dict(places)
        running: list[_Sequence] = []
        for sequence in self._all.values():
            if left.get(sequence.asked.model, 0) > 0:
                left[sequence.asked.model] -= 1
                running.append(sequence)
        time.sleep(sum(_pass_s(sequence) for sequence in running))
        share_s = (time.perf_counter() - start) / max(1, len(running))
        return [message for sequence in running for message in self._carry_on(sequence, share_s)]

    def _carry_on(self, sequence: _Sequence, seconds: float) -> list[Chunk | Generated | Failed]:
        asked, sampling = sequence.asked, sequence.asked.sampling
        sequence.seconds += seconds
        if sequence.options.fail is not None and sequence.options.fail in sequence.prompt:
            del self._all[asked.batch]
            error = ComputeFailed("told to fail")
            return [Failed(error.code, error.message, asked.batch)]
        if len(sequence.text) >= sampling.new_tokens:
            return [self._over(sequence, "length")]
        token = sequence.next()
        sequence.text.append(token)
        if token in sampling.stop:
            return [self._over(sequence, "stop")]
        chunk = Chunk(asked.batch, _ids([token]), *_told(token, sampling.logprobs))
        if len(sequence.text) < sampling.new_tokens:
            return [chunk]
        return [chunk, self._over(sequence, "length")]

    def end(self, batch: int) -> Generated:
        """It ends here."""
        sequence = self._all.pop(batch)
        return Generated(batch, "cancelled", len(sequence.text), sequence.seconds)

    def _over(self, sequence: _Sequence, finish: Literal["stop", "length"]) -> Generated:
        batch = sequence.asked.batch
        del self._all[batch]
        return Generated(batch, finish, len(sequence.text), sequence.seconds)


def _pass_s(sequence: _Sequence) -> float:
    options = sequence.options
    prompt_s = 0.0 if sequence.text else options.token_s * len(sequence.prompt)
    return prompt_s + options.new_token_s


def _take_down(prompt: list[int], options: FakeOptions) -> None:
    if options.crash in prompt:
        os.kill(os.getpid(), signal.SIGKILL)
    if options.hang in prompt:
        threading.Event().wait()


def _ids(ids: list[int]) -> Array:
    return to_wire(np.array(ids, np.int32))


def _told(token: int, count: int) -> tuple[Array | None, Array | None, Array | None]:
    """It is sure of each token: the likelihood of any other is nothing."""
    if count < 0:
        return None, None, None
    top = np.array([token, *range(token + 1, token + count)][:count], np.int32)
    likely = np.array([0.0] + [-100.0] * (count - 1), np.float32)[:count]
    one = to_wire(np.zeros(1, np.float32))
    return one, to_wire(top[None]), to_wire(likely[None])
