"""The ONNX Runtime runtime: models that are shipped as ONNX graphs, on the CPU.

Turns messages into calls on models and foreign errors into ours. Whatever the lane's device is, its
graphs are computed by the processor.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

import shoal
from shoal.errors import (
    ErrorInfo,
    InvalidRequest,
    ModelLoadFailed,
    ShoalError,
    UnknownModel,
    nearest,
)
from shoal.runtimes.base import OutOfMemory
from shoal.runtimes.onnx.ocr.reader import Reader
from shoal.runtimes.process import rss_bytes, trim
from shoal.tasks.ocr import ROW
from shoal.wire.arrays import from_wire
from shoal.wire.outputs import Output, to_wires
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

#: Families that it has code for.
FAMILIES = {"ppocr": Reader}


class OnnxRuntime:
    """`Runtime` with a fixed number of threads for each graph."""

    def __init__(self, threads: int = 1) -> None:
        self._threads = threads
        self._models: dict[str, tuple[Load, Reader]] = {}
        self._batches = 0

    def hello(self) -> Hello:
        """Who this is and what it can do."""
        capabilities = Capabilities(batching="ours", inputs="tokens", families=list(FAMILIES))
        return Hello("onnx", shoal.__version__, "cpu", capabilities)

    def load(self, load: Load) -> Loaded:
        """Make a model resident, warmed up. Raises `ModelLoadFailed`, `OutOfMemory`."""
        family = FAMILIES.get(load.family)
        if family is None:
            raise ModelLoadFailed(
                f"the onnx runtime has no family '{load.family}'{nearest(load.family, FAMILIES)}"
            )
        if load.options:
            raise ModelLoadFailed(
                f"the onnx runtime has no options; its profile gives {', '.join(load.options)}"
            )
        if load.model in self._models:
            self.unload(load.model)
        began = time.perf_counter()
        try:
            model = family(load, load.threads or self._threads)
            model.warm_up()
        except MemoryError:
            raise OutOfMemory(f"{load.model} did not fit") from None
        self._models[load.model] = (load, model)
        return Loaded(load.model, model.bytes, time.perf_counter() - began)

    def unload(self, model: str) -> None:
        """Give the model's memory back. Raises `UnknownModel` if it is not resident."""
        self._resident(model)
        del self._models[model]
        trim()

    def run(self, batch: Run) -> Done:
        """One batch through one model, item by item: no two pictures have one size."""
        load, model = self._resident(batch.model)
        for head in batch.heads:
            if head not in load.heads:
                raise InvalidRequest(
                    f"'{batch.model}' has no head '{head}'{nearest(head, load.heads)}"
                )
        if batch.inputs is None:
            raise InvalidRequest(f"'{batch.model}' takes decoded media, and none came")
        began = time.perf_counter()
        rows: list[NDArray[np.float32]] = []
        computed, failed = 0, dict[int, ErrorInfo]()
        for position, array in enumerate(batch.inputs):
            try:
                own, tiles = model.run(model.check(from_wire(array)))
            except ShoalError as error:
                failed[position] = error.info
                own, tiles = np.zeros((0, ROW), np.float32), 0
            except MemoryError:
                raise OutOfMemory(
                    f"{batch.model}: no memory for {len(batch.inputs)} items"
                ) from None
            rows.append(own)
            computed += tiles
        seconds = time.perf_counter() - began
        self._batches += 1
        lengths = np.array([len(own) for own in rows], np.int32)
        output = Output(np.concatenate(rows), lengths)
        arrays, counts, indices = to_wires(dict.fromkeys(batch.heads, output))
        return Done(batch.batch, arrays, seconds, computed, failed, counts, indices)

    def add_adapter(self, add: AddAdapter) -> None:
        """Raises `InvalidRequest`: `hello` says that this runtime takes no adapters."""
        raise InvalidRequest(f"the onnx runtime takes no adapters ({add.adapter})")

    def remove_adapter(self, remove: RemoveAdapter) -> None:
        """Raises `InvalidRequest`: there are none."""
        raise InvalidRequest(f"the onnx runtime holds no adapters ({remove.adapter})")

    def stats(self) -> Stats:
        """Bytes held per model, resident set, batches run."""
        trim()
        held = {name: model.bytes for name, (_, model) in list(self._models.items())}
        return Stats(held, rss_bytes(), self._batches)

    def _resident(self, model: str) -> tuple[Load, Reader]:
        found = self._models.get(model)  # once: another thread may unload meanwhile
        if found is None:
            raise UnknownModel(f"{model} is not loaded here{nearest(model, list(self._models))}")
        return found
