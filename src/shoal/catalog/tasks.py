"""What a catalog entry says of the tasks that its model answers, as values.

How they are answered is `shoal.tasks`' and a runtime's.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Pooling = Literal["mean", "cls", "last", "max"]

#: What `encode` may answer with.
OUTPUTS = ("dense", "sparse", "multivector")
#: A vector of fixed width for those of all tokens, which no runtime computes.
MADE_OF_MULTIVECTOR = "fde"
#: Where the caller's instruction stands in a prompt or a template.
INSTRUCTION = "{instruction}"
#: Heads of `score` that compare an output of `encode`, and which one.
COMPARED = {"maxsim": "multivector", "cosine": "dense"}


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
