"""BERT and the families whose code is mostly that of BERT."""

from __future__ import annotations

from typing import Any

from transformers import BertConfig, DistilBertConfig, MPNetConfig, RobertaConfig

from tests.runtimes.torch.families.row import SHAPE, Row, classes, with_types

_DISTILBERT: dict[str, Any] = {
    "vocab_size": 101,
    "dim": 32,
    "n_layers": 2,
    "n_heads": 4,
    "hidden_dim": 64,
    "max_position_embeddings": 64,
    "initializer_range": 0.3,
}

NEAR_BERT = (
    Row(
        "bert",
        lambda **changes: BertConfig(**SHAPE | changes),
        classes("Bert"),
        variants=({}, {"hidden_act": "gelu_new", "tie_word_embeddings": False}),
        types=True,
        reference=with_types,
    ),
    Row(
        "distilbert",
        lambda **changes: DistilBertConfig(**_DISTILBERT | changes),
        classes("DistilBert"),
        variants=(
            {},
            {"sinusoidal_pos_embds": True, "activation": "relu"},
            {"tie_word_embeddings": False},
        ),
    ),
    Row(
        "roberta",
        lambda **changes: RobertaConfig(**SHAPE | changes),
        classes("Roberta"),
        # Padding tokens are among those that are drawn.
        variants=(
            {},
            {
                "pad_token_id": 5,
                "type_vocab_size": 1,
                "max_position_embeddings": 68,
                "tie_word_embeddings": False,
            },
        ),
        max_tokens=62,
    ),
    Row(
        "mpnet",
        lambda **changes: MPNetConfig(**SHAPE | changes),
        classes("MPNet"),
        variants=({}, {"tie_word_embeddings": False}),
        max_tokens=62,
    ),
)
