"""The rows of encoders of BERT's kind with rotary positions."""

from __future__ import annotations

from typing import Any

from transformers import (
    GteConfig,
    GteForMaskedLM,
    GteForSequenceClassification,
    GteForTokenClassification,
    GteModel,
    ModernBertConfig,
    ModernBertForMaskedLM,
    ModernBertForSequenceClassification,
    ModernBertForTokenClassification,
    ModernBertModel,
    NomicBertConfig,
    NomicBertForMaskedLM,
    NomicBertForSequenceClassification,
    NomicBertForTokenClassification,
    NomicBertModel,
)

from tests.runtimes.torch.families.row import SHAPE, Row, with_types

#: Special tokens inside the vocabulary; layers of both kinds, the local ones with a window of 8.
MODERNBERT: dict[str, Any] = {
    "pad_token_id": 0,
    "bos_token_id": 1,
    "cls_token_id": 1,
    "eos_token_id": 2,
    "sep_token_id": 2,
    "num_hidden_layers": 4,
    "local_attention": 16,
}

STRETCHED: dict[str, Any] = {
    "full_attention": {
        "rope_type": "yarn",
        "rope_theta": 50.0,
        "factor": 4.0,
        "original_max_position_embeddings": 16,
    },
    "sliding_attention": {"rope_type": "linear", "rope_theta": 100.0, "factor": 2.0},
}

ROTARY_BERT = (
    Row(
        "modernbert",
        lambda **changes: ModernBertConfig(**SHAPE | MODERNBERT | changes),
        {
            "encoder": ModernBertModel,
            "masked-lm": ModernBertForMaskedLM,
            "sequence": ModernBertForSequenceClassification,
            "tokens": ModernBertForTokenClassification,
        },
        variants=(
            {},
            {
                "norm_bias": True,
                "attention_bias": True,
                "mlp_bias": True,
                "classifier_bias": True,
                "classifier_pooling": "mean",
                "classifier_activation": "relu",
                "hidden_activation": "silu",
                "decoder_bias": False,
                "tie_word_embeddings": False,
                "rope_parameters": STRETCHED,
                "layer_types": ["sliding_attention", "full_attention"] * 2,
            },
        ),
    ),
    Row(
        "nomic",
        lambda **changes: NomicBertConfig(**SHAPE | changes),
        {
            "encoder": NomicBertModel,
            "masked-lm": NomicBertForMaskedLM,
            "sequence": NomicBertForSequenceClassification,
            "tokens": NomicBertForTokenClassification,
        },
        variants=({}, {"hidden_act": "gelu", "rope_parameters": STRETCHED["full_attention"]}),
        types=True,
        reference=with_types,
    ),
    Row(
        "gte",
        lambda **changes: GteConfig(**SHAPE | {"type_vocab_size": 2} | changes),
        {
            "encoder": GteModel,
            "masked-lm": GteForMaskedLM,
            "sequence": GteForSequenceClassification,
            "tokens": GteForTokenClassification,
        },
        variants=({}, {"hidden_act": "silu", "rope_parameters": STRETCHED["full_attention"]}),
        types=True,
        reference=with_types,
    ),
)
