"""The families, each as tiny as it can be while nothing in it is a special case."""

from __future__ import annotations

from typing import Any

from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertModel,
)

from tests.runtimes.torch.families.cells import HEADS
from tests.runtimes.torch.families.row import Row, with_types

SHAPE: dict[str, Any] = {
    "vocab_size": 101,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "initializer_range": 0.3,
}

ROWS: dict[str, Row] = {
    row.family: row
    for row in (
        Row(
            "bert",
            lambda **changes: BertConfig(**SHAPE | changes),
            {
                "encoder": BertModel,
                "masked-lm": BertForMaskedLM,
                "sequence": BertForSequenceClassification,
                "tokens": BertForTokenClassification,
            },
            variants=({}, {"hidden_act": "gelu_new", "tie_word_embeddings": False}),
            types=True,
            reference=with_types,
        ),
    )
}


def cells() -> list[tuple[str, str]]:
    """Family and head of every cell of the table."""
    return [
        (family, head)
        for family, row in ROWS.items()
        for head, ways in HEADS.items()
        if all(way.kind in row.classes for way in ways)
    ]
