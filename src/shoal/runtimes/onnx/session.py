"""How graphs are opened and run by onnxruntime: on the CPU, and what it says when it cannot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnxruntime as ort
from numpy.typing import NDArray

from shoal.errors import ComputeFailed, ModelLoadFailed, reason
from shoal.runtimes.base import OutOfMemory

#: 0 verbose to 4 fatal: warnings are about the exporter's nodes, nothing a user can act on.
_ERRORS = 3

#: What its errors say of an allocation that failed.
_NO_MEMORY = ("bad_alloc", "Failed to allocate memory")


class Session:
    """A graph and its weights; `run` may be called from one thread at a time.

    Attributes:
        inputs, outputs: their names; `outputs` with how many dimensions each has.
    """

    def __init__(self, path: Path, threads: int, *, arena: bool = False) -> None:
        """Raises `ModelLoadFailed` where the file is not there, or is no graph.

        arena: whether one place is kept for what a pass takes, until its end. It serves passes of
        many equal steps: what glibc makes of their aligned blocks is twice as large, since it fills
        no gap of the very size (MiniLM of 2,048 tokens at its peak: 55 MB against 120).
        """
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.enable_cpu_mem_arena = arena
        options.enable_mem_pattern = False
        # Threads that wait by spinning take the cores of the lane's other runtimes.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = _ERRORS
        # By itself an arena keeps the largest pass for ever.
        self._once = ort.RunOptions()
        if arena:
            self._once.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
        if not path.is_file():
            raise ModelLoadFailed(f"{path} cannot be read: No such file")
        try:
            self._session = ort.InferenceSession(
                str(path), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # each of the library's has a class of its own below this one
            raise ModelLoadFailed(f"{path} cannot be read: {reason(error)}") from None
        self.inputs = [value.name for value in self._session.get_inputs()]
        self.outputs = {value.name: len(value.shape) for value in self._session.get_outputs()}

    def run(self, outputs: list[str], values: dict[str, NDArray[Any]]) -> list[NDArray[Any]]:
        """One pass. Raises `ComputeFailed`, `OutOfMemory`."""
        try:
            return list(self._session.run(outputs, values, self._once))
        except Exception as error:
            sizes = ", ".join(str(list(value.shape)) for value in values.values())
            if any(said in str(error) for said in _NO_MEMORY):
                raise OutOfMemory(f"no memory for an input of {sizes}") from None
            raise ComputeFailed(f"an input of {sizes}: {error}") from None
