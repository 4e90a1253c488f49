"""The rows of language models of Llama's kind, taken as encoders."""

from __future__ import annotations

from typing import Any

from transformers import (
    Gemma3TextConfig,
    Gemma3TextForSequenceClassification,
    Gemma3TextModel,
    LlamaConfig,
    LlamaForCausalLM,
    LlamaForSequenceClassification,
    LlamaForTokenClassification,
    LlamaModel,
    MistralConfig,
    MistralForCausalLM,
    MistralForSequenceClassification,
    MistralForTokenClassification,
    MistralModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen2ForSequenceClassification,
    Qwen2ForTokenClassification,
    Qwen2Model,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3ForSequenceClassification,
    Qwen3ForTokenClassification,
    Qwen3Model,
    SmolLM3Config,
    SmolLM3ForCausalLM,
    SmolLM3ForSequenceClassification,
    SmolLM3ForTokenClassification,
    SmolLM3Model,
)

from tests.runtimes.torch.families.row import SHAPE, Row

#: Special tokens inside the vocabulary; id 0 is not drawn, so the reference's last token is ours.
DECODER: dict[str, Any] = {
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "num_key_value_heads": 2,
}

LLAMA3: dict[str, Any] = {
    "rope_type": "llama3",
    "rope_theta": 200.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}

#: Both kinds of layers, the local ones with a window of 9 tokens, or of 5 on each side.
GEMMA3: dict[str, Any] = {
    "num_hidden_layers": 4,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
    "head_dim": 16,
    "query_pre_attn_scalar": 24,
    "sliding_window": 9,
}

NEAR_LLAMA = (
    Row(
        "llama",
        lambda **changes: LlamaConfig(**SHAPE | DECODER | changes),
        {
            "encoder": LlamaModel,
            "sequence": LlamaForSequenceClassification,
            "tokens": LlamaForTokenClassification,
            "generator": LlamaForCausalLM,
        },
        variants=(
            {},
            {"rope_parameters": LLAMA3},
            {
                "num_key_value_heads": 1,
                "head_dim": 12,
                "attention_bias": True,
                "mlp_bias": True,
                "hidden_act": "gelu",
                "is_causal": False,
            },
        ),
        first_token=1,
    ),
    Row(
        "mistral",
        lambda **changes: MistralConfig(**SHAPE | DECODER | changes),
        {
            "encoder": MistralModel,
            "sequence": MistralForSequenceClassification,
            "tokens": MistralForTokenClassification,
            "generator": MistralForCausalLM,
        },
        variants=(
            {"sliding_window": 9},
            {"num_key_value_heads": 4, "sliding_window": None, "head_dim": 16},
        ),
        first_token=1,
    ),
    Row(
        "qwen2",
        lambda **changes: Qwen2Config(**SHAPE | DECODER | changes),
        {
            "encoder": Qwen2Model,
            "sequence": Qwen2ForSequenceClassification,
            "tokens": Qwen2ForTokenClassification,
            "generator": Qwen2ForCausalLM,
        },
        variants=(
            {},
            {
                "num_key_value_heads": 1,
                "use_sliding_window": True,
                "sliding_window": 9,
                "max_window_layers": 1,
            },
        ),
        first_token=1,
    ),
    Row(
        "qwen3",
        lambda **changes: Qwen3Config(**SHAPE | DECODER | changes),
        {
            "encoder": Qwen3Model,
            "sequence": Qwen3ForSequenceClassification,
            "tokens": Qwen3ForTokenClassification,
            "generator": Qwen3ForCausalLM,
        },
        variants=(
            {"head_dim": 16},
            {
                "num_key_value_heads": 4,
                "head_dim": 8,
                "attention_bias": True,
                "tie_word_embeddings": True,
                "use_sliding_window": True,
                "sliding_window": 9,
                "layer_types": ["sliding_attention", "full_attention"],
                "is_causal": False,
            },
        ),
        first_token=1,
    ),
    Row(
        "smollm3",
        lambda **changes: SmolLM3Config(**SHAPE | DECODER | {"num_hidden_layers": 4} | changes),
        {
            "encoder": SmolLM3Model,
            "sequence": SmolLM3ForSequenceClassification,
            "tokens": SmolLM3ForTokenClassification,
            "generator": SmolLM3ForCausalLM,
        },
        variants=(
            {},
            {
                "num_key_value_heads": 1,
                "no_rope_layers": [1, 0, 0, 1],
                "use_sliding_window": True,
                "sliding_window": 9,
                "attention_bias": True,
                "mlp_bias": True,
            },
        ),
        first_token=1,
    ),
    Row(
        "gemma3",
        lambda **changes: Gemma3TextConfig(**SHAPE | DECODER | GEMMA3 | changes),
        {
            "encoder": Gemma3TextModel,
            "sequence": Gemma3TextForSequenceClassification,
        },
        variants=(
            {},
            {
                "use_bidirectional_attention": True,
                "attention_bias": True,
                "hidden_activation": "gelu",
                "rope_parameters": {
                    "full_attention": LLAMA3,
                    "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
                },
            },
        ),
        first_token=1,
    ),
)
