"""A runtime without a model: vectors computed from the tokens or the text alone.

Equal items get equal vectors and different items different ones, whatever they were batched
with, so tests and benchmarks can check that every answer belongs to its item. What a batch
costs, and what goes wrong, is said in the options of `Load`.
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from shoal import __version__
from shoal.errors import ComputeFailed, InvalidRequest, ModelLoadFailed, UnknownModel, nearest
from shoal.runtimes.base import OutOfMemory
from shoal.runtimes.hashing import Vectors, pack_texts, seed_of, vectors_of
from shoal.runtimes.process import rss_bytes
from shoal.wire.arrays import from_wire, to_wire
from shoal.wire.socket import (
    AddAdapter,
    Capabilities,
    Done,
    Hello,
    Load,
    Loaded,
    RemoveAdapter,
    Run,
    Stats,
)

DEFAULT_DIM = 384
#: A token id, or a piece of text where the inputs are texts.
Marker = int | str | None


class FakeOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`Load.options` of the fake runtime.

    Attributes:
        inputs: what `Run` must bring.
        base_s, token_s, square_s, item_s: seconds(batch) = base + token·tokens + square·Σlen² +
            item·items, slept away; all zero is as fast as it can.
        load_s, load_error, bytes: how long loading takes, why it fails, what it reports to hold.
        max_items: batches of more items are out of memory.
        crash: a batch with this marker kills the process, as a segmentation fault would.
        nan: an item with this marker is answered with NaN.
        fail: an item with this marker fails alone.
    """

    inputs: Literal["tokens", "text"] = "tokens"
    base_s: float = 0.0
    token_s: float = 0.0
    square_s: float = 0.0
    item_s: float = 0.0
    load_s: float = 0.0
    load_error: str | None = None
    bytes: int = 1_000_000
    max_items: int | None = None
    crash: Marker = None
    nan: Marker = None
    fail: Marker = None

    def cost_s(self, lengths: NDArray[np.int64]) -> float:
        """What a batch of items with these token counts takes."""
        squares = int(lengths @ lengths) if self.square_s else 0
        return (
            self.base_s
            + self.token_s * int(lengths.sum())
            + self.square_s * squares
            + self.item_s * len(lengths)
        )


@dataclass(frozen=True, slots=True)
class _Items:
    """The items of a batch, packed; a text is the bytes of its UTF-8."""

    tokens: NDArray[np.integer[Any]]  # [total_tokens]
    lengths: NDArray[np.int64]  # [n_items]
    texts: list[str] | None

    def with_marker(self, marker: Marker) -> list[int]:
        """Positions of the items that hold `marker`."""
        if marker is None:
            return []
        if isinstance(marker, str):
            return [i for i, text in enumerate(self.texts or []) if marker in text]
        found = np.flatnonzero(self.tokens == marker)
        return sorted({int(i) for i in np.searchsorted(self.lengths.cumsum(), found, "right")})


class FakeRuntime:
    """See the module; `hello` declares family ``fake`` and any device."""

    def __init__(self, device: str = "cpu") -> None:
        self._device = device
        self._models: dict[str, tuple[Load, FakeOptions]] = {}
        self._batches = 0

    def hello(self) -> Hello:
        return Hello("fake", __version__, self._device, Capabilities(families=["fake"]))

    def load(self, load: Load) -> Loaded:
        start = time.perf_counter()
        try:
            options = msgspec.convert(load.options, FakeOptions)
        except msgspec.ValidationError as error:
            raise ModelLoadFailed(f"options of '{load.model}': {error}") from None
        time.sleep(options.load_s)
        if options.load_error is not None:
            raise ModelLoadFailed(options.load_error)
        self._models[load.model] = (load, options)
        return Loaded(load.model, options.bytes, time.perf_counter() - start)

    def unload(self, model: str) -> None:
        self._find(model)
        del self._models[model]

    def run(self, batch: Run) -> Done:
        start = time.perf_counter()
        load, options = self._find(batch.model)
        items = _items(batch, options)
        _refuse(items, options)
        arrays = {head: to_wire(_vectors(items, load, options, head)) for head in batch.heads}
        failed = {i: ComputeFailed("told to fail").info for i in items.with_marker(options.fail)}
        _sleep_until(start + options.cost_s(items.lengths))
        self._batches += 1
        return Done(batch.batch, arrays, time.perf_counter() - start, len(items.tokens), failed)

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
            raise UnknownModel(f"'{model}' is not resident{nearest(model, self._models)}")
        return found


def _items(batch: Run, options: FakeOptions) -> _Items:
    """Raises `InvalidRequest` if the batch lacks the inputs that the model was loaded for."""
    if options.inputs == "text":
        if batch.texts is None:
            raise InvalidRequest(f"'{batch.model}' was loaded for texts and none came")
        return _Items(*pack_texts(batch.texts), batch.texts)
    if batch.tokens is None or batch.lengths is None:
        raise InvalidRequest(f"'{batch.model}' was loaded for tokens and none came")
    tokens, lengths = from_wire(batch.tokens), from_wire(batch.lengths).astype(np.int64)
    if lengths.sum() != len(tokens) or (lengths < 0).any():
        raise InvalidRequest(f"lengths sum to {lengths.sum()} but {len(tokens)} tokens came")
    return _Items(tokens, lengths, None)


def _refuse(items: _Items, options: FakeOptions) -> None:
    """Fail the batch as a whole, as `options` say."""
    if items.with_marker(options.crash):
        os.kill(os.getpid(), signal.SIGKILL)
    if options.max_items is not None and len(items.lengths) > options.max_items:
        raise OutOfMemory(f"{len(items.lengths)} items and memory for {options.max_items}")


def _vectors(items: _Items, load: Load, options: FakeOptions, head: str) -> Vectors:
    if head not in load.heads:
        raise InvalidRequest(f"'{load.model}' has no head '{head}'{nearest(head, load.heads)}")
    dim = int(load.heads[head].get("dim", DEFAULT_DIM))
    vectors = vectors_of(items.tokens, items.lengths, dim, seed_of(load.model, head))
    vectors[items.with_marker(options.nan)] = np.nan
    return vectors


def _sleep_until(moment: float) -> None:
    """Sleep as a device computes: without the CPU, and not at all if it is late."""
    left = moment - time.perf_counter()
    if left > 0:
        time.sleep(left)
