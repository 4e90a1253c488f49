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

import numpy as np

from shoal import __version__
from shoal.errors import ComputeFailed, InvalidRequest, ModelLoadFailed, UnknownModel, nearest
from shoal.runtimes.base import OutOfMemory
from shoal.runtimes.fake.hashing import seed_of
from shoal.runtimes.fake.items import Items, items_of
from shoal.runtimes.fake.memory import Memory
from shoal.runtimes.fake.options import FakeOptions, options_of
from shoal.runtimes.fake.outputs import output_of
from shoal.runtimes.fake.sequences import FakeSequences
from shoal.runtimes.process import rss_bytes
from shoal.wire.outputs import Output, to_wires
from shoal.wire.socket import (
    AddAdapter,
    Capabilities,
    Chunk,
    Done,
    Failed,
    Generate,
    Generated,
    Hello,
    Load,
    Loaded,
    RemoveAdapter,
    Run,
    Stats,
)


class FakeRuntime:
    """See the module; `hello` declares family ``fake`` and any device."""

    def __init__(self, device: str = "cpu") -> None:
        self._device = device
        self._memory = Memory()
        self._models: dict[str, tuple[Load, FakeOptions]] = {}
        self._sequences = FakeSequences()
        self._batches = 0

    def hello(self) -> Hello:
        capabilities = Capabilities(families=["fake"], streams=True)
        return Hello("fake", __version__, self._device, capabilities)

    def load(self, load: Load) -> Loaded:
        start = time.perf_counter()
        options = options_of(load)
        if load.model in self._models:
            self.unload(load.model)
        self._memory.take(load.model, options)  # held while it loads, as tensors are
        time.sleep(options.load_s)
        if options.load_error is not None:
            self._memory.give_back(load.model, options)
            raise ModelLoadFailed(options.load_error)
        self._models[load.model] = (load, options)
        return Loaded(load.model, options.bytes, time.perf_counter() - start)

    def unload(self, model: str) -> None:
        _, options = self._find(model)
        del self._models[model]
        self._memory.give_back(model, options)

    def run(self, batch: Run) -> Done:
        start = time.perf_counter()
        load, options = self._find(batch.model)
        items = items_of(batch, options)
        _refuse(items, options)
        outputs = {head: _output(items, load, options, head) for head in batch.heads}
        failed = {i: ComputeFailed("told to fail").info for i in items.with_marker(options.fail)}
        late_s = options.slow_s if items.with_marker(options.slow) else 0.0
        _sleep_until(start + options.cost_s(items.lengths, items.file_bytes) + late_s)
        self._batches += 1
        arrays, lengths, indices = to_wires(outputs)
        seconds = time.perf_counter() - start
        return Done(batch.batch, arrays, seconds, len(items.tokens), failed, lengths, indices)

    def begin(self, generate: Generate) -> None:
        load, options = self._find(generate.model)
        self._sequences.begin(generate, options, load.sequences)

    def step(self) -> list[Chunk | Generated | Failed]:
        places = {model: load.sequences for model, (load, _) in list(self._models.items())}
        return self._sequences.step(places)

    def end(self, batch: int) -> Generated:
        return self._sequences.end(batch)

    def add_adapter(self, add: AddAdapter) -> None:
        raise InvalidRequest("the fake runtime takes no adapters")

    def remove_adapter(self, remove: RemoveAdapter) -> None:
        raise InvalidRequest("the fake runtime takes no adapters")

    def stats(self) -> Stats:
        held = {model: options.bytes for model, (_, options) in list(self._models.items())}
        return Stats(held, rss_bytes(), self._batches)

    def _find(self, model: str) -> tuple[Load, FakeOptions]:
        found = self._models.get(model)
        if found is None:
            raise UnknownModel(f"'{model}' is not resident{nearest(model, list(self._models))}")
        return found


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


def _output(items: Items, load: Load, options: FakeOptions, name: str) -> Output:
    if name not in load.heads:
        raise InvalidRequest(f"'{load.model}' has no head '{name}'{nearest(name, load.heads)}")
    asked = load.heads[name]
    output = output_of(items, asked | {"head": asked.get("head", name)}, seed_of(load.model, name))
    wrong = items.with_marker(options.nan)
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
