"""The runtime that is checked: its processes, the model that they are tried with, and the time it has.

Most checks leave a process as it was and share one, since starting it may take seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property

import msgspec
import numpy as np

from shoal.runtimes.check.process import Limit, Process
from shoal.runtimes.check.sample import Sample, batch_of
from shoal.runtimes.check.verdict import needs
from shoal.runtimes.spec import RuntimeSpec
from shoal.wire.arrays import to_wire
from shoal.wire.socket import (
    AskStats,
    Capabilities,
    Done,
    Generate,
    Generated,
    Load,
    Loaded,
    Run,
    Sampling,
    Stats,
)

#: The model that is loaded throughout.
BASE = "base"
#: A batch of less passes before the next message arrives.
_BUSY_S = 0.005
_BUSY_ITEMS = 256
#: So long a runtime is kept busy: long enough that a message must come through meanwhile.
_BUSY_FOR_S = 0.2
_FEWEST, _MOST = 8, 40


class Subject:
    """Raises `NotApplicable` where a check asks for what it, or its sample, does not have.

    Attributes:
        greeted: one of its processes has said hello.
    """

    def __init__(self, spec: RuntimeSpec, limit_s: float) -> None:
        self.spec = spec
        self.limit = Limit(limit_s)
        self.greeted = False
        self._sample: Sample | None = None
        self._shared: Process | None = None
        self._loaded = False

    def try_with(self, sample: Sample) -> None:
        """The model that it is tried with; nothing has been loaded yet."""
        self._sample = sample

    @property
    def sample(self) -> Sample:
        needs(self._sample is not None, "there is no model to try it with; give one with --model")
        assert self._sample is not None
        return self._sample

    @property
    def items(self) -> Sequence[Run]:
        """Of the sample, where its model answers batches."""
        needs(bool(self.sample.items), "the model only generates")
        return self.sample.items

    @property
    def prompts(self) -> Sequence[Sequence[int]]:
        """Of the sample, where it generates."""
        needs(self.capabilities.streams, "it says of itself that it does not generate")
        needs(bool(self.sample.prompts), "the model generates nothing")
        return self.sample.prompts

    @property
    def capabilities(self) -> Capabilities:
        """As its hello has them."""
        return self.process.hello.capabilities

    @property
    def process(self) -> Process:
        """The one that is shared."""
        if self._shared is None:
            self._shared = self._start()
        return self._shared

    @property
    def resident(self) -> Process:
        """The one that is shared, with the model loaded."""
        process, load = self.process, self.load(BASE)
        if not self._loaded:
            process.ask(load, Loaded)
            self._loaded = True
        return process

    @contextmanager
    def fresh(self) -> Iterator[Process]:
        """One for a check alone, which may end it."""
        process = self._start()
        try:
            yield process
        finally:
            process.kill()

    def load(self, model: str, large: bool = False) -> Load:
        """What loads the sample's model under this name."""
        chosen = (large and self.sample.large) or self.sample.load
        return msgspec.structs.replace(chosen, model=model)

    def run(self, batch: int, model: str = BASE) -> Run:
        """A batch of one item."""
        return batch_of(batch, model, self.items[:1])

    def generate(
        self, batch: int, sampling: Sampling, prompt: int = 0, model: str = BASE
    ) -> Generate:
        """A sequence that goes on with one of the prompts."""
        ids = np.array(self.prompts[prompt % len(self.prompts)], np.int32)
        return Generate(batch, model, to_wire(ids), sampling)

    def busy(self, model: str = BASE) -> list[Run]:
        """Batches, numbered from 0, that take far longer together than a message takes to arrive."""
        items, count = self._busy
        repeated = [self.items[n % len(self.items)] for n in range(items)]
        return [batch_of(number, model, repeated) for number in range(count)]

    @cached_property
    def _busy(self) -> tuple[int, int]:
        """Items of a batch, and how many batches."""
        items, seconds = 1, 0.0
        while items < _BUSY_ITEMS and seconds < _BUSY_S:
            items *= 4
            repeated = [self.items[n % len(self.items)] for n in range(items)]
            seconds = self.resident.ask(batch_of(0, BASE, repeated), Done).seconds
        return items, min(_MOST, max(_FEWEST, int(_BUSY_FOR_S / max(seconds, 1e-4))))

    def works(self, process: Process, model: str = BASE) -> None:
        """That it still computes."""
        if self.sample.items:
            process.ask(self.run(77, model), Done)
        else:
            process.send(self.generate(77, Sampling(1), model=model))
            while not isinstance(process.hear_any("'generated'"), Generated):
                pass

    def settle(self) -> None:
        """That the shared process has nothing left to say. Raises `Faulty` with what it said."""
        if self._shared is not None:
            self._shared.ask(AskStats(), Stats)

    def discard(self) -> None:
        """Of the shared process nothing is known any more."""
        if self._shared is not None:
            self._shared.kill()
        self._shared, self._loaded = None, False

    def _start(self) -> Process:
        process = Process(self.spec, self.limit)
        self.greeted = True
        return process
