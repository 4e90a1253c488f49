"""The contract of a runtime: what `server` calls, and from which threads.

`run` and the adapters are called one at a time from the main thread, `load` and `unload` one at a
time from another beside them: a model that loads must not keep the others from running. No model
is unloaded before its own batches are done. A runtime knows one device, its models and its batches; it never hears of the queue, of tenants
or of deadlines.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from shoal.errors import ShoalError
from shoal.wire.socket import (
    AddAdapter,
    Chunk,
    Done,
    Failed,
    Generate,
    Generated,
    Hello,
    Load,
    Loaded,
    RemoveAdapter,
    Run,
    Stats,
)


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


@runtime_checkable
class Generates(Protocol):
    """What a `Runtime` has beside that if its capabilities say `streams`; all from the main thread.

    It forms its own batches of what was begun. A sequence holds its place until `step` answered it
    with `Generated` or `Failed`, or `end` was called.
    """

    def begin(self, generate: Generate) -> None:
        """Take a sequence in; it may wait until there is a place for it.

        Raises `UnknownModel`, `InvalidRequest` for what it can never do, `OutOfMemory` for what
        can never fit; then there is no such sequence.
        """

    def step(self) -> list[Chunk | Generated | Failed]:
        """One pass over what is under way, of some tens of milliseconds: what came of it, in order.

        What one sequence is at fault for is a `Failed` of its own; what is raised fails all.
        """

    def end(self, batch: int) -> Generated:
        """End a sequence that was begun and not answered, wherever it is: ``cancelled``."""
