"""The contract of a runtime: what `server` calls, and from which threads.

`run` and the adapters are called one at a time from the main thread, `load` and `unload` one at a
time from another beside them: a model that loads must not keep the others from running. No model
is unloaded before its own batches are done. A runtime knows one device, its models and its batches; it never hears of the queue, of tenants
or of deadlines.
"""

from __future__ import annotations

from typing import Protocol

from shoal.errors import ShoalError
from shoal.wire.socket import AddAdapter, Done, Hello, Load, Loaded, RemoveAdapter, Run, Stats


class OutOfMemory(ShoalError):
    """The device has not the memory for this batch or this model; the worker makes it smaller, or
    makes room."""

    code = "out_of_memory"


class RuntimeStartFailed(ShoalError):
    """The runtime process did not come up; the message ends with its last lines of stderr."""

    code = "runtime_start_failed"
    status = 502


class Runtime(Protocol):
    """One device's models. All methods block; errors are `ShoalError`s."""

    def hello(self) -> Hello:
        """Kind, version, device and capabilities; called once, before anything else."""

    def load(self, load: Load) -> Loaded:
        """Make a model resident; what is resident under its name is replaced.

        Raises `ModelLoadFailed` with the reason, `OutOfMemory` where it did not fit.
        """

    def unload(self, model: str) -> None:
        """Give the model's memory back. Raises `UnknownModel` if it is not resident."""

    def run(self, batch: Run) -> Done:
        """One forward pass. Raises `OutOfMemory`, `UnknownModel`, `InvalidRequest`."""

    def add_adapter(self, add: AddAdapter) -> None:
        """Put a LoRA on a resident model. Raises `InvalidRequest` with the mismatch."""

    def remove_adapter(self, remove: RemoveAdapter) -> None:
        """Take a LoRA off and give its memory back."""

    def stats(self) -> Stats:
        """Bytes held per model, resident set, batches run.

        May be called from any thread while other calls run.
        """
