"""A runtime without a model: answers computed from the tokens or the text alone.

Equal items get equal answers and different items different ones, whatever they were batched
with, so tests and benchmarks can check that every answer belongs to its item. What a batch
costs, and what goes wrong, is said in the options of `Load`.
"""

from __future__ import annotations

import os
import signal
import threading
import time

import msgspec
import numpy as np

from shoal.errors import ComputeFailed, ModelLoadFailed
from shoal.runtimes.base import OutOfMemory
from shoal.runtimes.batch import Outputs
from shoal.runtimes.fake.hashing import seed_of
from shoal.runtimes.fake.items import Items, items_of
from shoal.runtimes.fake.memory import Memory
from shoal.runtimes.fake.options import FakeOptions, options_of
from shoal.runtimes.fake.outputs import output_of
from shoal.runtimes.fake.sequences import FakeSequences
from shoal.runtimes.resident import ModelRuntime
from shoal.wire.outputs import Output
from shoal.wire.socket import Chunk, Failed, Generate, Generated, Load, Run


class Pretended(msgspec.Struct, frozen=True):
    """A model that is none: what it was loaded as, and what it costs."""

    load: Load
    options: FakeOptions

    @property
    def bytes(self) -> int:
        return self.options.bytes


class FakeRuntime(ModelRuntime[Pretended]):
    """See the module; its device is whatever it was told."""

    kind = "fake"
    families = ("fake",)
    has_options = True

    def __init__(self, device: str = "cpu", threads: int = 1) -> None:
        super().__init__(device, threads)
        self._memory = Memory()
        self._sequences = FakeSequences()

    def make(self, load: Load) -> Pretended:
        options = options_of(load)
        self._memory.take(load.model, options)  # held while it loads, as tensors are
        time.sleep(options.load_s)
        if options.load_error is not None:
            self._memory.give_back(load.model, options)
            raise ModelLoadFailed(options.load_error)
        return Pretended(load, options)

    def unload(self, model: str) -> None:
        _, pretended = self._resident(model)
        super().unload(model)
        self._memory.give_back(model, pretended.options)

    def compute(self, model: Pretended, batch: Run) -> Outputs:
        start, options = time.perf_counter(), model.options
        items = items_of(batch, options)
        _refuse(items, options)
        outputs = {head: _output(items, model, head) for head in batch.heads}
        failed = {i: ComputeFailed("told to fail").info for i in items.with_marker(options.fail)}
        late_s = options.slow_s if items.with_marker(options.slow) else 0.0
        _sleep_until(start + options.cost_s(items.lengths, items.file_bytes) + late_s)
        return Outputs(outputs, len(items.tokens), failed)

    def begin(self, generate: Generate) -> None:
        load, pretended = self._resident(generate.model)
        self._sequences.begin(generate, pretended.options, load.sequences)

    def step(self) -> list[Chunk | Generated | Failed]:
        places = {model: load.sequences for model, (load, _) in list(self._models.items())}
        return self._sequences.step(places)

    def end(self, batch: int) -> Generated:
        return self._sequences.end(batch)


def _refuse(items: Items, options: FakeOptions) -> None:
    """Fail the batch as a whole, as `options` say."""
    if items.with_marker(options.crash):
        os.kill(os.getpid(), signal.SIGKILL)
    if items.with_marker(options.hang):
        threading.Event().wait()
    _check("items", len(items.lengths), options.max_items)
    _check("tokens", len(items.tokens), options.max_tokens)


def _check(what: str, count: int, at_most: int | None) -> None:
    if at_most is not None and count > at_most:
        raise OutOfMemory(f"{count} {what} and memory for {at_most}")


def _output(items: Items, model: Pretended, name: str) -> Output:
    asked = model.load.heads[name]
    seed = seed_of(model.load.model, name)
    output = output_of(items, asked | {"head": asked.get("head", name)}, seed)
    wrong = items.with_marker(model.options.nan)
    if output.lengths is None:
        output.values[wrong] = np.nan
    else:
        output.values[np.isin(np.arange(output.items).repeat(output.lengths), wrong)] = np.nan
    return output


def _sleep_until(moment: float) -> None:
    """Sleep as a device computes: without the CPU, and not at all if it is late."""
    left = moment - time.perf_counter()
    if left > 0:
        time.sleep(left)
