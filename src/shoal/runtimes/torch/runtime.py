"""The PyTorch runtime: one device, its resident models, and the batches they run.

Turns messages into calls on models and foreign errors into ours; how a model computes is the
business of `model` and the families.
"""

from __future__ import annotations

import contextlib
import os

import torch

from shoal.errors import ConfigError
from shoal.runtimes.batch import Outputs, read
from shoal.runtimes.resident import ModelRuntime
from shoal.runtimes.torch import memory
from shoal.runtimes.torch.families.known import FAMILIES
from shoal.runtimes.torch.model import Model
from shoal.runtimes.torch.threads import compute_alone
from shoal.wire.socket import Load, Run

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

    def __init__(self, device: str = "cpu", threads: int = 1) -> None:
        self._device = _device(device)
        super().__init__(str(self._device), threads)
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
        compute_alone()
        model = Model(load, self._device)
        model.warm_up()
        return model

    def compute(self, model: Model, batch: Run) -> Outputs:
        items = read(batch)
        threads = model.threads or self.threads
        if threads != torch.get_num_threads():
            torch.set_num_threads(threads)
        return model.run(items, batch.heads)

    def out_of_memory(self, error: Exception) -> bool:
        return memory.is_out_of_memory(error)

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
