"""A family as the tests see it: a row of the table in docs/models.md.

A new family is one more row in `rows.py`; which cells it has follows from its classes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
import transformers

#: What of the reference library computes a head: ``AutoModel``'s kinds.
Kind = Literal["encoder", "masked-lm", "sequence", "tokens", "generator"]

_SUFFIXES: dict[Kind, str] = {
    "encoder": "Model",
    "masked-lm": "ForMaskedLM",
    "sequence": "ForSequenceClassification",
    "tokens": "ForTokenClassification",
}

#: By the keys that most configs have.
SHAPE: dict[str, Any] = {
    "vocab_size": 101,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "initializer_range": 0.3,
}


@dataclass(frozen=True)
class Row:
    """One family.

    Attributes:
        family: its name on a card.
        config: makes a tiny config of the reference library; takes changes to its keys.
        classes: the reference's classes, each made from a config.
        variants: changes to the config that each cell is checked under.
        types: whether a second segment changes what is computed.
        first_token: ids below mean something to the reference (padding) and are not drawn.
        max_tokens: the longest item.
        reference: calls a class: (model, ids [1, tokens], types [1, tokens]) -> its output.
    """

    family: str
    config: Callable[..., Any]
    classes: dict[Kind, type[Any]]
    variants: tuple[dict[str, Any], ...] = ({},)
    types: bool = False
    first_token: int = 0
    max_tokens: int = 64
    reference: Callable[[Any, torch.Tensor, torch.Tensor], Any] = field(
        default=lambda model, ids, types: model(ids)
    )

    def make(self, kind: Kind, folder: Path, **changes: Any) -> Any:
        """A model with random weights, saved in `folder` as the reference saves it."""
        torch.manual_seed(11)
        model = self.classes[kind](self.config(**changes)).eval()
        randomize(model)
        model.save_pretrained(folder)
        return model


def classes(architecture: str) -> dict[Kind, type[Any]]:
    """Those of the reference that are called after an architecture, as many as there are."""
    named = {kind: f"{architecture}{suffix}" for kind, suffix in _SUFFIXES.items()}
    return {
        k: getattr(transformers, name) for k, name in named.items() if hasattr(transformers, name)
    }


def with_types(model: Any, ids: torch.Tensor, types: torch.Tensor) -> Any:
    """The call of a model that takes token types."""
    return model(ids, token_type_ids=types)


def randomize(model: torch.nn.Module) -> None:
    """Biases start at 0 and norms at 1: a forgotten one would not be seen."""
    for parameter in model.parameters():
        if parameter.dim() == 1:
            with torch.no_grad():
                parameter.add_(torch.randn_like(parameter), alpha=0.1)
