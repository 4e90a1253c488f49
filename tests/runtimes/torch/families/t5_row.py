"""T5's encoder."""

from __future__ import annotations

from typing import Any

from transformers import T5Config, T5EncoderModel, T5ForTokenClassification

from tests.runtimes.torch.families.row import Row

#: Heads together are wider than what they attend to.
T5_SHAPE: dict[str, Any] = {
    "vocab_size": 101,
    "d_model": 32,
    "d_kv": 12,
    "d_ff": 64,
    "num_layers": 2,
    "num_heads": 4,
    "initializer_factor": 1.5,
}

T5 = Row(
    "t5",
    lambda **changes: T5Config(**T5_SHAPE | changes),
    {"encoder": T5EncoderModel, "tokens": T5ForTokenClassification},
    variants=(
        {},
        {
            "feed_forward_proj": "gated-gelu",
            "relative_attention_num_buckets": 16,
            "relative_attention_max_distance": 30,
        },
    ),
)
