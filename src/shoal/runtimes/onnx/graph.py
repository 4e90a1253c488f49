"""One ONNX graph of one input and one output, on the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from shoal.errors import ComputeFailed, ModelLoadFailed, reason
from shoal.runtimes.base import OutOfMemory

#: 0 verbose to 4 fatal: warnings are about the exporter's nodes, nothing a user can act on.
_ERRORS = 3

#: What its errors say of an allocation that failed.
_NO_MEMORY = ("bad_alloc", "Failed to allocate memory")

Floats = NDArray[np.float32]


class Graph:
    """A graph and its weights; `run` may be called from one thread at a time.

    Attributes:
        bytes: of its weights, which take as much memory as in the file.
    """

    def __init__(self, path: Path, threads: int) -> None:
        """Raises `ModelLoadFailed` where the file is not there, or is no graph of this kind."""
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        # An arena keeps the largest pass for ever; without one it goes back, and takes as long.
        options.enable_cpu_mem_arena = False
        options.enable_mem_pattern = False
        # Threads that wait by spinning take the cores of the lane's other runtimes.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = _ERRORS
        try:
            self.bytes = path.stat().st_size
            self._session = ort.InferenceSession(
                str(path), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # each of the library's has a class of its own below this one
            raise ModelLoadFailed(f"{path} cannot be read: {reason(error)}") from None
        inputs, outputs = self._session.get_inputs(), self._session.get_outputs()
        if len(inputs) != 1 or len(outputs) != 1:
            raise ModelLoadFailed(
                f"{path} has {len(inputs)} inputs and {len(outputs)} outputs, not one of each"
            )
        self._input, self._output = inputs[0].name, outputs[0].name

    def run(self, values: Floats) -> NDArray[Any]:
        """One pass. Raises `ComputeFailed`, `OutOfMemory`."""
        try:
            output: NDArray[Any] = self._session.run([self._output], {self._input: values})[0]
        except Exception as error:
            if any(said in str(error) for said in _NO_MEMORY):
                raise OutOfMemory(f"no memory for an input of {list(values.shape)}") from None
            raise ComputeFailed(f"an input of {list(values.shape)}: {error}") from None
        return output
