"""The PyTorch runtime: one device, its resident models, and the batches they run.

Turns messages into calls on models and foreign errors into ours; how a model computes is the
business of `model` and the families.
"""

from __future__ import annotations

import contextlib
import os

import torch

from shoal.errors import ConfigError, InvalidRequest, ModelLoadFailed
from shoal.runtimes.batch import Outputs, read
from shoal.runtimes.generating.sequence import Told
from shoal.runtimes.generating.turns import Turns
from shoal.runtimes.resident import ModelRuntime
from shoal.runtimes.torch import memory
from shoal.runtimes.torch.families.known import FAMILIES
from shoal.runtimes.torch.model import Model
from shoal.runtimes.torch.threads import compute_alone
from shoal.wire.socket import Generate, Generated, Load, Run

#: 64 row counts of one model; 200 MB at most, which is no model's and in no `Loaded.bytes`.
_KERNELS_KEPT = 256


class TorchRuntime(ModelRuntime[Model]):
    """One torch device (``cpu``, ``cuda``, ``cuda:1``).

    Thread counts of torch are of the process, so one process holds one of these.

    Raises:
        ConfigError: this machine has no such device.
    """

    kind = "torch"
    families = FAMILIES
    has_options = True

    def __init__(self, device: str = "cpu", threads: int = 1) -> None:
        self._device = _device(device)
        super().__init__(str(self._device), threads)
        self._turns = Turns()
        # Read when oneDNN first computes. It holds about 0.7 MB a kernel and keeps 1,024 of them
        # by itself: batches of mixed lengths would fill the memory of several small models.
        os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(_KERNELS_KEPT))
        torch.set_num_threads(threads)
        # Only possible before torch first ran something in parallel; nothing here ever does.
        with contextlib.suppress(RuntimeError):
            torch.set_num_interop_threads(1)
        torch.set_flush_denormal(True)

    @property
    def device_bytes(self) -> int:
        return memory.device_bytes(self._device)

    def make(self, load: Load) -> Model:
        """On one core, beside running batches."""
        if load.options and not load.sequences:
            raise ModelLoadFailed(
                "the torch runtime has no options for models that generate nothing; its profile gives "
                f"{', '.join(load.options)}"
            )
        compute_alone()
        model = Model(load, self._device)
        model.warm_up()
        return model

    def compute(self, model: Model, batch: Run) -> Outputs:
        items = read(batch)
        self._use(model.threads)
        return model.run(items, batch.heads)

    def begin(self, generate: Generate) -> None:
        """Take a sequence in. Raises `UnknownModel`, `InvalidRequest`, `OutOfMemory`."""
        _, model = self._resident(generate.model)
        if model.generator is None:
            raise InvalidRequest(f"'{generate.model}' was loaded to generate nothing")
        self._turns.begin(generate, model.generator)

    def step(self) -> list[Told]:
        """One pass of one model, whose turn it is."""
        generator = self._turns.next()
        if generator is None:
            return []
        self._use(generator.threads)
        return self._turns.told(generator.step())

    def end(self, batch: int) -> Generated:
        """End a sequence that was begun."""
        return self._turns.end(batch)

    def unload(self, model: str) -> None:
        """Raises `UnknownModel` if it is not resident."""
        _, resident = self._resident(model)
        if resident.generator is not None:
            resident.generator.close()
        del resident
        super().unload(model)

    def out_of_memory(self, error: Exception) -> bool:
        return memory.is_out_of_memory(error)

    def _use(self, threads: int) -> None:
        """So many threads for what comes; 0: all that this process was given."""
        threads = threads or self.threads
        if threads != torch.get_num_threads():
            torch.set_num_threads(threads)

    def give_back(self) -> None:
        memory.give_back(self._device)


def _device(name: str) -> torch.device:
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        said = str(error).partition("\n")[0]
        raise ConfigError(f"torch has no device '{name}' on this machine: {said}") from None
    return device
