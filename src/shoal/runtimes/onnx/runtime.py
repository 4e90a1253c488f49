"""The ONNX Runtime runtime: models that are shipped as ONNX graphs, on the CPU.

Whatever the lane's device is, its graphs are computed by the processor.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shoal.errors import ErrorInfo, InvalidRequest, ShoalError
from shoal.runtimes.batch import Outputs
from shoal.runtimes.onnx.ocr.reader import Reader
from shoal.runtimes.resident import ModelRuntime
from shoal.tasks.ocr import ROW
from shoal.wire.arrays import from_wire
from shoal.wire.outputs import Output
from shoal.wire.socket import Load, Run

#: Families that it has code for.
FAMILIES = {"ppocr": Reader}


class OnnxRuntime(ModelRuntime[Reader]):
    """A fixed number of threads for each graph."""

    kind = "onnx"
    families = FAMILIES

    def __init__(self, _device: str = "cpu", threads: int = 1) -> None:
        super().__init__("cpu", threads)

    def make(self, load: Load) -> Reader:
        model = FAMILIES[load.family](load, load.threads or self.threads)
        model.warm_up()
        return model

    def compute(self, model: Reader, batch: Run) -> Outputs:
        """Item by item: no two pictures have one size."""
        if batch.inputs is None:
            raise InvalidRequest(f"'{batch.model}' takes decoded media, and none came")
        rows: list[NDArray[np.float32]] = []
        computed, failed = 0, dict[int, ErrorInfo]()
        for position, array in enumerate(batch.inputs):
            try:
                own, tiles = model.run(model.check(from_wire(array)))
            except ShoalError as error:
                failed[position] = error.info
                own, tiles = np.zeros((0, ROW), np.float32), 0
            rows.append(own)
            computed += tiles
        lengths = np.array([len(own) for own in rows], np.int32)
        output = Output(np.concatenate(rows), lengths)
        return Outputs(dict.fromkeys(batch.heads, output), computed, failed)
