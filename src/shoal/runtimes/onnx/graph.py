"""One ONNX graph of one input and one output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.errors import ModelLoadFailed
from shoal.runtimes.onnx.session import Session

Floats = NDArray[np.float32]


class Graph:
    """A graph and its weights; `run` may be called from one thread at a time.

    Attributes:
        bytes: of its weights, which take as much memory as in the file.
    """

    def __init__(self, path: Path, threads: int) -> None:
        """Raises `ModelLoadFailed` where the file is not there, or is no graph of this kind."""
        self._session = Session(path, threads)
        self.bytes = path.stat().st_size
        inputs, outputs = self._session.inputs, list(self._session.outputs)
        if len(inputs) != 1 or len(outputs) != 1:
            raise ModelLoadFailed(
                f"{path} has {len(inputs)} inputs and {len(outputs)} outputs, not one of each"
            )
        self._input, self._output = inputs[0], outputs[0]

    def run(self, values: Floats) -> NDArray[Any]:
        """One pass. Raises `ComputeFailed`, `OutOfMemory`."""
        return self._session.run([self._output], {self._input: values})[0]
