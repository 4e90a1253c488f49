"""What the runtimes that hold models do alike: models by name, their bytes, and what is refused.

A kind adds how a model is loaded and how a batch is computed. What a model is made of, and which
library computes it, is not known here.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import ClassVar, Generic, Protocol, TypeVar

import shoal
from shoal.errors import InvalidRequest, ModelLoadFailed, ShoalError, UnknownModel
from shoal.runtimes.base import Generates, OutOfMemory
from shoal.runtimes.batch import Outputs, size_of
from shoal.runtimes.process import rss_bytes, trim
from shoal.spelling import nearest
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


class Resident(Protocol):
    """A loaded model. `bytes`: of its weights, and of the activations of its largest pass."""

    @property
    def bytes(self) -> int: ...


M = TypeVar("M", bound=Resident)


class ModelRuntime(ABC, Generic[M]):
    """`Runtime` of one device, but for what its kind adds; one that `Generates` says so.

    Attributes:
        kind: its name in profiles.
        families: that it has code for.
        has_options: whether `Load.options` say something to it.
        device: as `hello` says it.
        threads: of the process, for models that were loaded with no number of their own.
    """

    kind: ClassVar[str]
    families: ClassVar[Collection[str]]
    has_options: ClassVar[bool] = False

    def __init__(self, device: str = "cpu", threads: int = 1) -> None:
        self.device = device
        self.threads = threads
        self._models: dict[str, tuple[Load, M]] = {}
        self._batches = 0

    @abstractmethod
    def make(self, load: Load) -> M:
        """A model, warmed up. `load` is of one of `families`.

        Raises `ModelLoadFailed`; errors of the file system and of the library become one.
        """

    @abstractmethod
    def compute(self, model: M, batch: Run) -> Outputs:
        """One batch; its heads are the model's. Raises `InvalidRequest` for what makes no sense."""

    def out_of_memory(self, error: Exception) -> bool:
        """Whether the library's error says that there was not enough."""
        return isinstance(error, MemoryError)

    def give_back(self) -> None:
        """Return to the system what a model that is gone has left free."""
        trim()

    @property
    def device_bytes(self) -> int:
        """All memory of the device; 0 for a CPU, whose memory is everybody's."""
        return 0

    def hello(self) -> Hello:
        """Who this is and what it can do."""
        return Hello(
            self.kind,
            shoal.__version__,
            self.device,
            Capabilities(families=list(self.families), streams=isinstance(self, Generates)),
            device_bytes=self.device_bytes,
        )

    def load(self, load: Load) -> Loaded:
        """Make a model resident, warmed up. Raises `ModelLoadFailed`, `OutOfMemory`."""
        self._refuse(load)
        if load.model in self._models:
            self.unload(load.model)
        began = time.perf_counter()
        try:
            model = self.make(load)
        except ShoalError:
            raise
        except (RuntimeError, ValueError, OSError, MemoryError) as error:
            if self.out_of_memory(error):
                raise OutOfMemory(f"{load.model} did not fit: {_first_line(error)}") from None
            raise ModelLoadFailed(f"{type(error).__name__}: {error}") from error
        self._models[load.model] = (load, model)
        return Loaded(load.model, model.bytes, time.perf_counter() - began)

    def unload(self, model: str) -> None:
        """Give the model's memory back. Raises `UnknownModel` if it is not resident."""
        self._resident(model)
        del self._models[model]
        self.give_back()

    def run(self, batch: Run) -> Done:
        """One batch through one model. Raises `OutOfMemory`, `UnknownModel`, `InvalidRequest`."""
        load, model = self._resident(batch.model)
        if any(batch.adapters or ()):
            raise InvalidRequest(f"the {self.kind} runtime takes no adapters")
        for head in batch.heads:
            if head not in load.heads:
                raise InvalidRequest(
                    f"'{batch.model}' was loaded without head '{head}'; it has "
                    f"{', '.join(load.heads)}{nearest(head, load.heads)}"
                )
        began = time.perf_counter()
        try:
            said = self.compute(model, batch)
        except (RuntimeError, MemoryError) as error:
            if not self.out_of_memory(error):
                raise
            raise OutOfMemory(f"{batch.model}: no memory for {size_of(batch)}") from None
        seconds = time.perf_counter() - began
        self._batches += 1
        arrays, lengths, indices = to_wires(said.outputs)
        return Done(
            batch.batch, arrays, seconds, said.computed_tokens, said.failed, lengths, indices
        )

    def add_adapter(self, add: AddAdapter) -> None:
        """Raises `InvalidRequest`: `hello` says that this runtime takes no adapters."""
        raise InvalidRequest(f"the {self.kind} runtime takes no adapters ({add.adapter})")

    def remove_adapter(self, remove: RemoveAdapter) -> None:
        """Raises `InvalidRequest`: there are none."""
        raise InvalidRequest(f"the {self.kind} runtime holds no adapters ({remove.adapter})")

    def stats(self) -> Stats:
        """Bytes held per model, resident set, batches run.

        What malloc keeps of freed activations goes back first: 150 MB after mixed lengths, 5 ms.
        """
        trim()
        # A list first: another thread may ask while this one loads or unloads.
        held = {name: model.bytes for name, (_, model) in list(self._models.items())}
        return Stats(held, rss_bytes(), self._batches)

    def _refuse(self, load: Load) -> None:
        """What can be told before a file is read."""
        if load.family not in self.families:
            raise ModelLoadFailed(
                f"the {self.kind} runtime has no family '{load.family}'; it has "
                f"{', '.join(self.families)}{nearest(load.family, self.families)}"
            )
        if load.options and not self.has_options:
            raise ModelLoadFailed(
                f"the {self.kind} runtime has no options; its profile gives "
                f"{', '.join(load.options)}"
            )

    def _resident(self, model: str) -> tuple[Load, M]:
        found = self._models.get(model)  # once: another thread may unload meanwhile
        if found is None:
            raise UnknownModel(f"'{model}' is not loaded here{nearest(model, list(self._models))}")
        return found


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]
