"""The Candle runtime: dense vectors of encoders, on the CPU, without PyTorch.

Whatever the lane's device is, the processor computes: the library's builds for Linux know no other.
"""

from __future__ import annotations

from shoal.runtimes.batch import Outputs, read
from shoal.runtimes.candle.configs import FAMILIES
from shoal.runtimes.candle.library import compute_with
from shoal.runtimes.candle.model import Model
from shoal.runtimes.resident import ModelRuntime
from shoal.wire.socket import Load, Run


class CandleRuntime(ModelRuntime[Model]):
    """`Runtime` whose models share one pool of threads; a process holds one of these."""

    kind = "candle"
    families = FAMILIES

    def __init__(self, _device: str = "cpu", threads: int = 1) -> None:
        super().__init__("cpu", threads)
        compute_with(threads)

    def make(self, load: Load) -> Model:
        model = Model(load)
        model.warm_up()
        return model

    def compute(self, model: Model, batch: Run) -> Outputs:
        return model.run(read(batch), batch.heads)
