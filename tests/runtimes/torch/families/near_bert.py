"""BERT and the families whose code is mostly that of BERT."""

from __future__ import annotations

from typing import Any

from transformers import (
    AlbertConfig,
    BertConfig,
    DebertaV2Config,
    DistilBertConfig,
    ElectraConfig,
    MPNetConfig,
    RobertaConfig,
)

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

DEBERTA: dict[str, Any] = {
    "position_biased_input": False,
    "relative_attention": True,
    "pos_att_type": ["p2c", "c2p"],
}

NEAR_BERT = (
    Row(
        "albert",
        lambda **changes: AlbertConfig(**SHAPE | {"embedding_size": 16} | changes),
        classes("Albert"),
        variants=(
            {},
            {"num_hidden_layers": 5, "num_hidden_groups": 2, "tie_word_embeddings": False},
        ),
        types=True,
        reference=with_types,
    ),
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
        "deberta",
        lambda **changes: DebertaV2Config(**SHAPE | DEBERTA | changes),
        classes("DebertaV2"),
        variants=(
            {},
            {  # as version 3 has them
                "share_att_key": True,
                "position_buckets": 16,
                "norm_rel_ebd": "layer_norm",
                "pos_att_type": "p2c|c2p",
                "legacy": False,
                "pooler_hidden_act": "tanh",
            },
            {"pos_att_type": ["c2p"], "max_relative_positions": 20, "tie_word_embeddings": False},
            {"pos_att_type": "P2C", "position_buckets": 16, "max_relative_positions": 40},
            {"relative_attention": False, "norm_rel_ebd": "layer_norm"},
            {"pos_att_type": None},
        ),
    ),
    Row(
        "electra",
        lambda **changes: ElectraConfig(**SHAPE | {"embedding_size": 16} | changes),
        classes("Electra"),
        variants=({}, {"embedding_size": 32, "tie_word_embeddings": False}),
        types=True,
        reference=with_types,
    ),
    Row(
        "mpnet",
        lambda **changes: MPNetConfig(**SHAPE | changes),
        classes("MPNet"),
        variants=({}, {"tie_word_embeddings": False}),
        max_tokens=62,
    ),
)
