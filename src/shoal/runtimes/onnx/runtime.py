"""The ONNX Runtime runtime: graphs on the CPU, of encoders and of what reads pictures.

Whatever the lane's device is, its graphs are computed by the processor.
"""

from __future__ import annotations

from shoal.runtimes import batch as batches
from shoal.runtimes.batch import Outputs
from shoal.runtimes.onnx.encoders.model import EncoderModel
from shoal.runtimes.onnx.export.architecture import FAMILIES as ENCODERS
from shoal.runtimes.onnx.ocr.reader import Reader
from shoal.runtimes.resident import ModelRuntime
from shoal.wire.socket import Load, Run

#: Families that it has code for.
FAMILIES: dict[str, type[Reader] | type[EncoderModel]] = {
    "ppocr": Reader,
    **dict.fromkeys(ENCODERS, EncoderModel),
}


class OnnxRuntime(ModelRuntime[Reader | EncoderModel]):
    """A fixed number of threads for each graph."""

    kind = "onnx"
    families = FAMILIES
    has_options = True

    def __init__(self, _device: str = "cpu", threads: int = 1) -> None:
        super().__init__("cpu", threads)

    def make(self, load: Load) -> Reader | EncoderModel:
        model = FAMILIES[load.family](load, load.threads or self.threads)
        model.warm_up()
        return model

    def compute(self, model: Reader | EncoderModel, batch: Run) -> Outputs:
        return model.run(batches.read(batch), batch.heads)
