"""The SGLang runtime: models that SGLang servers generate with. It batches by itself; what is asked of
it at once, and in which order, is the worker's.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import msgspec

from shoal.errors import InvalidRequest, ModelLoadFailed
from shoal.runtimes.batch import Outputs
from shoal.runtimes.process import give_up
from shoal.runtimes.resident import ModelRuntime
from shoal.runtimes.sglang.loop import Loop
from shoal.runtimes.sglang.model import Model
from shoal.runtimes.sglang.sequences import Sequences, Told
from shoal.wire.socket import AddAdapter, Generate, Generated, Hello, Load, RemoveAdapter, Run

#: Of those that cards may have; what a model is made of is SGLang's to know.
FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "gemma3", "smollm3")


class SGLangRuntime(ModelRuntime[Model]):
    """`Runtime` whose models are servers.

    Args:
        ended: what to do where a server is gone, with the reason: this process ends, and the worker starts
            another.
    """

    kind = "sglang"
    families = FAMILIES
    has_options = True

    def __init__(
        self, device: str = "cpu", threads: int = 1, ended: Callable[[str], None] = give_up
    ) -> None:
        super().__init__(device, threads)
        self._ended = ended
        self._loop = Loop()
        self._sequences = Sequences(self._loop)

    @property
    def device_bytes(self) -> int:
        kind, _, number = self.device.partition(":")
        return _gpu_bytes(number or "0") if kind == "cuda" else 0

    def hello(self) -> Hello:
        """It batches by itself, and takes adapters where its servers do."""
        hello = super().hello()
        capabilities = msgspec.structs.replace(hello.capabilities, batching="self", lora=True)
        return msgspec.structs.replace(hello, capabilities=capabilities)

    def make(self, load: Load) -> Model:
        if set(load.heads) != {"generate"} or not load.sequences:
            raise ModelLoadFailed(
                f"the sglang runtime generates texts and does nothing else; '{load.model}' is to have "
                f"{', '.join(load.heads) or 'no output'}"
            )
        return Model(load, self.device, self._loop, self._ended)

    def unload(self, model: str) -> None:
        """Leave the server; one that was started here ends. Raises `UnknownModel`."""
        _, resident = self._resident(model)
        resident.close()
        super().unload(model)

    def compute(self, model: Model, batch: Run) -> Outputs:
        raise InvalidRequest(f"'{batch.model}' generates texts; it has no batches")

    def begin(self, generate: Generate) -> None:
        """Take a sequence in. Raises `UnknownModel`, `InvalidRequest`."""
        _, model = self._resident(generate.model)
        self._sequences.begin(generate, model)

    def step(self) -> list[Told]:
        """What the servers sent."""
        return self._sequences.step()

    def end(self, batch: int) -> Generated:
        """End a sequence that was begun, here and on its server."""
        return self._sequences.end(batch)

    def add_adapter(self, add: AddAdapter) -> None:
        """Raises `UnknownModel`, `InvalidRequest` with the server's reason."""
        self._resident(add.model)[1].add_adapter(add.adapter, add.path)

    def remove_adapter(self, remove: RemoveAdapter) -> None:
        """Waits for the texts that use it. Raises `UnknownModel`, `InvalidRequest`."""
        self._resident(remove.model)[1].remove_adapter(remove.adapter)


def _gpu_bytes(number: str) -> int:
    """All memory of a GPU, as its driver says; 0 where that cannot be asked."""
    command = ["nvidia-smi", f"--id={number}", "--query-gpu=memory.total"]
    try:
        told = subprocess.run(
            [*command, "--format=csv,noheader,nounits"], capture_output=True, timeout=10, check=True
        )
        return int(told.stdout) << 20
    except (OSError, ValueError, subprocess.SubprocessError):
        return 0
