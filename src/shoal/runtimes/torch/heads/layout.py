"""Where an architecture keeps the tensors of its heads and what it does with them, as data.

A family fills this in from its config; the heads read and compute it. Names are those that the
family's `rename` gives. Nothing is loaded here, so a head that nobody asks for costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from shoal.runtimes.torch.heads.speaking import Speaker
from shoal.runtimes.torch.layers import Layers
from shoal.runtimes.torch.linear import Activation

#: How the rows of an item become one.
Pooling = Literal["mean", "cls", "last", "max"]


class Linear(msgspec.Struct, frozen=True):
    """``name.weight`` [out, in] and, with `bias`, ``name.bias`` [out], then the activation."""

    name: str
    activation: Activation | None = None
    bias: bool = True


class Norm(msgspec.Struct, frozen=True):
    """Layer norm: ``name.weight`` and, with `bias`, ``name.bias``, both [width]."""

    name: str
    eps: float
    bias: bool = True


#: What follows the encoder, first to last.
Steps = tuple[Linear | Norm, ...]


class Classifier(msgspec.Struct, frozen=True):
    """Labels of a whole sequence: one row by `pooling`, then `steps`; the last gives the logits."""

    steps: Steps
    pooling: Pooling = "cls"


class MaskedLM(msgspec.Struct, frozen=True):
    """Logits over the vocabulary, a row a token: `transform`, then the decoder.

    Attributes:
        decoder: the whole name of its weight [vocabulary, width], that of the word embeddings
            where the two are tied.
        bias: the whole name of its bias [vocabulary].
        own: names of a weight and a bias that take their place where a checkpoint holds them, as
            the reference has it, whatever config.json says of tied weights.
    """

    transform: Steps
    decoder: str
    bias: str | None = None
    own: tuple[str, str] | None = None


class Similarity(msgspec.Struct, frozen=True):
    """How a cosine of a text and an image becomes a logit: the logarithm of its factor, and what is
    added, both as whole names of tensors of one number."""

    scale: str
    bias: str | None = None


class Layout(msgspec.Struct, frozen=True):
    """The heads that an architecture has; None where it has none of the kind.

    Attributes:
        sequence: of ``...ForSequenceClassification``.
        tokens: of ``...ForTokenClassification``; the last step gives a token's logits.
        masked_lm: of ``...ForMaskedLM``.
        similarity: of a model with a tower of texts and one of images.
        generator: of ``...ForCausalLM`` and ``...ForConditionalGeneration``: the tensor that gives the logits
            of the next token, [vocabulary, width]; `tied`: it is the table of words; `own`: takes its place
            where a checkpoint holds it, as the reference has it, whatever config.json says.
        speaker: of a model that says in tokens what it heard: builds its decoder.
    """

    sequence: Classifier | None = None
    tokens: Steps | None = None
    masked_lm: MaskedLM | None = None
    similarity: Similarity | None = None
    generator: str | None = None
    tied: bool = False
    own: str | None = None
    speaker: Callable[[Layers], Speaker] | None = None
