"""The heads that the torch runtime has, and those that a model was loaded with."""

from __future__ import annotations

from typing import Any

from shoal.errors import ModelLoadFailed
from shoal.runtimes.torch.heads.base import Build, Ground, Head
from shoal.runtimes.torch.heads.colbert import colbert
from shoal.runtimes.torch.heads.dense import dense
from shoal.runtimes.torch.heads.labels import sequence_labels, token_labels
from shoal.runtimes.torch.heads.lexical import lexical
from shoal.runtimes.torch.heads.similarity import image_text
from shoal.runtimes.torch.heads.spans import spans
from shoal.runtimes.torch.heads.splade import splade
from shoal.runtimes.torch.heads.transcript import transcript
from shoal.runtimes.torch.heads.yes_no import yes_no
from shoal.spelling import nearest

#: The head of a model that generates, which is none of these: what it says is no row of a batch.
GENERATE = "generate"

#: `head` of an output's options -> how it is built.
HEADS: dict[str, Build] = {
    "dense": dense,
    "splade": splade,
    "lexical": lexical,
    "colbert": colbert,
    "cross-encoder": sequence_labels,
    "sequence-labels": sequence_labels,
    "nli": sequence_labels,
    "image-labels": sequence_labels,
    "image-text": image_text,
    "transcript": transcript,
    "token-labels": token_labels,
    "spans": spans,
    "yes-no": yes_no,
}


def build(outputs: dict[str, dict[str, Any]], ground: Ground) -> dict[str, Head]:
    """The heads of a model by output. Raises `ModelLoadFailed` naming what is unknown or missing.

    outputs: name -> options; without `head` among them the head is named as the output.
    """
    return {
        name: _build(options.get("head", name), options, ground)
        for name, options in outputs.items()
    }


def _build(head: str, options: dict[str, Any], ground: Ground) -> Head:
    if head not in HEADS:
        raise ModelLoadFailed(
            f"the torch runtime has no head {head!r}; it has {', '.join([*HEADS, GENERATE])}"
            f"{nearest(head, [*HEADS, GENERATE])}"
        )
    try:
        return HEADS[head](options, ground)
    except ModelLoadFailed as error:
        raise ModelLoadFailed(f"head '{head}': {error.message}") from None
