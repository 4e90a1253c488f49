"""The PyTorch runtime: one device, its resident models, and the batches they run.

Turns messages into calls on models and foreign errors into ours; how a model computes is the
business of `model` and the families.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import shoal
from shoal.errors import (
    ConfigError,
    InvalidRequest,
    ModelLoadFailed,
    ShoalError,
    UnknownModel,
    nearest,
)
from shoal.runtimes.base import OutOfMemory
from shoal.runtimes.process import rss_bytes, trim
from shoal.runtimes.torch import memory
from shoal.runtimes.torch.families.known import FAMILIES
from shoal.runtimes.torch.model import Batch, Model
from shoal.runtimes.torch.packed import Beginning
from shoal.runtimes.torch.threads import compute_alone
from shoal.wire.arrays import Array, from_wire
from shoal.wire.outputs import to_wires
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

#: 64 row counts of one model; 200 MB at most, which is no model's and in no `Loaded.bytes`.
_KERNELS_KEPT = 256


class TorchRuntime:
    """`Runtime` on one torch device (``cpu``, ``cuda``, ``cuda:1``).

    Thread counts of torch are of the process, so one process holds one of these.

    Raises:
        ConfigError: this machine has no such device.
    """

    def __init__(self, device: str = "cpu", threads: int = 1) -> None:
        self._device = _device(device)
        self._threads = threads
        self._models: dict[str, Model] = {}
        self._batches = 0
        # Read when oneDNN first computes. It holds about 0.7 MB a kernel and keeps 1,024 of them
        # by itself: batches of mixed lengths would fill the memory of several small models.
        os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(_KERNELS_KEPT))
        torch.set_num_threads(threads)
        # Only possible before torch first ran something in parallel; nothing here ever does.
        with contextlib.suppress(RuntimeError):
            torch.set_num_interop_threads(1)
        torch.set_flush_denormal(True)

    def hello(self) -> Hello:
        """Who this is and what it can do."""
        capabilities = Capabilities(batching="ours", inputs="tokens", families=list(FAMILIES))
        return Hello(
            "torch",
            shoal.__version__,
            str(self._device),
            capabilities,
            device_bytes=memory.device_bytes(self._device),
        )

    def load(self, load: Load) -> Loaded:
        """Make a model resident, warmed up, on one core and beside running batches.

        Raises `ModelLoadFailed` with the reason, `OutOfMemory` where it did not fit.
        """
        if load.options:
            raise ModelLoadFailed(
                f"the torch runtime has no options; its profile gives {', '.join(load.options)}"
            )
        if load.model in self._models:
            self.unload(load.model)
        began = time.perf_counter()
        compute_alone()
        try:
            model = Model(load, self._device)
            model.warm_up()
        except ShoalError:
            raise
        except (RuntimeError, ValueError, OSError, MemoryError) as error:
            if memory.is_out_of_memory(error):
                raise OutOfMemory(f"{load.model} did not fit: {_first_line(error)}") from None
            raise ModelLoadFailed(f"{type(error).__name__}: {error}") from error
        self._models[load.model] = model
        return Loaded(load.model, model.bytes, time.perf_counter() - began)

    def unload(self, model: str) -> None:
        """Give the model's memory back. Raises `UnknownModel` if it is not resident."""
        self._resident(model)
        del self._models[model]
        memory.give_back(self._device)

    def run(self, batch: Run) -> Done:
        """One batch through one model. Raises `OutOfMemory`, `UnknownModel`, `InvalidRequest`."""
        model = self._resident(batch.model)
        read = _read(batch)
        threads = model.threads or self._threads
        if threads != torch.get_num_threads():
            torch.set_num_threads(threads)
        began = time.perf_counter()
        try:
            outputs = model.run(read, batch.heads)
        except (RuntimeError, MemoryError) as error:
            if not memory.is_out_of_memory(error):
                raise
            raise OutOfMemory(
                f"{batch.model}: no memory for {len(read.lengths)} items of {len(read.tokens)} tokens"
            ) from None
        seconds = time.perf_counter() - began
        self._batches += 1
        arrays, lengths, indices = to_wires(outputs.outputs)
        return Done(
            batch.batch, arrays, seconds, outputs.computed_tokens, outputs.failed, lengths, indices
        )

    def add_adapter(self, add: AddAdapter) -> None:
        """Raises `InvalidRequest`: `hello` says that this runtime takes no adapters."""
        raise InvalidRequest(f"the torch runtime takes no adapters ({add.adapter})")

    def remove_adapter(self, remove: RemoveAdapter) -> None:
        """Raises `InvalidRequest`: there are none."""
        raise InvalidRequest(f"the torch runtime holds no adapters ({remove.adapter})")

    def stats(self) -> Stats:
        """Bytes held per model, resident set, batches run.

        What malloc keeps of freed activations goes back first: 150 MB after mixed lengths, 5 ms.
        """
        trim()
        # A list first: another thread may ask while this one loads or unloads.
        held = {name: model.bytes for name, model in list(self._models.items())}
        return Stats(held, rss_bytes(), self._batches)

    def _resident(self, model: str) -> Model:
        found = self._models.get(model)  # once: another thread may unload meanwhile
        if found is None:
            raise UnknownModel(f"{model} is not loaded here{nearest(model, list(self._models))}")
        return found


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]


def _device(name: str) -> torch.device:
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(
            f"torch has no device '{name}' on this machine: {_first_line(error)}"
        ) from None
    return device


def _read(batch: Run) -> Batch:
    """The items of a batch. Raises `InvalidRequest` where its arrays disagree."""
    if batch.tokens is None or batch.lengths is None:
        raise InvalidRequest("the torch runtime takes tokens and lengths, not texts")
    if any(batch.adapters or ()):
        raise InvalidRequest("the torch runtime takes no adapters")
    tokens = _vector(batch.tokens, "tokens")
    lengths = _vector(batch.lengths, "lengths").astype(np.int64)
    if (lengths < 0).any() or int(lengths.sum()) != len(tokens):
        raise InvalidRequest(
            f"lengths must be counts that add up to the {len(tokens)} tokens of the batch"
        )
    splits = None if batch.splits is None else _vector(batch.splits, "splits")
    if splits is not None and (
        len(splits) != len(lengths) or (splits < 0).any() or (splits > lengths).any()
    ):
        raise InvalidRequest(
            f"splits must be one an item, of {len(lengths)}, and inside its tokens"
        )
    seen = None if batch.seen is None else _vector(batch.seen, "seen")
    if seen is not None and (
        len(seen) != len(lengths) or (seen < 0).any() or (seen > lengths).any()
    ):
        raise InvalidRequest(f"seen must be one an item, of {len(lengths)}, and inside its tokens")
    marks = None if batch.marks is None else _vector(batch.marks, "marks", "uint8")
    if marks is not None and len(marks) != len(tokens):
        raise InvalidRequest(f"{len(marks)} marks came with {len(tokens)} tokens")
    inputs = None if batch.inputs is None else [from_wire(array) for array in batch.inputs]
    if inputs is not None and len(inputs) != len(lengths):
        raise InvalidRequest(f"{len(inputs)} inputs came with {len(lengths)} lengths")
    beginnings = _beginnings(batch, len(lengths))
    return Batch(tokens, lengths, splits, inputs, seen, marks, beginnings)


def _beginnings(batch: Run, items: int) -> list[Beginning] | None:
    """Raises `InvalidRequest` for those that are not one an item."""
    if batch.begins is None and batch.temperatures is None:
        return None
    ids: list[tuple[int, ...]] = [()] * items
    if batch.begins is not None:
        ids = [tuple(_vector(array, "begins").tolist()) for array in batch.begins]
    temperatures = [-1.0] * items
    if batch.temperatures is not None:
        temperatures = from_wire(batch.temperatures).tolist()
    if not len(ids) == len(temperatures) == items:
        raise InvalidRequest(
            f"{len(ids)} beginnings and {len(temperatures)} temperatures came with {items} items"
        )
    return [Beginning(*of) for of in zip(ids, temperatures, strict=True)]


def _vector(array: Array, what: str, dtype: str = "int32") -> NDArray[Any]:
    if array.dtype != dtype or len(array.shape) != 1:
        raise InvalidRequest(
            f"{what} must be {dtype} of one dimension, not {array.dtype} of shape {array.shape}"
        )
    return from_wire(array)
