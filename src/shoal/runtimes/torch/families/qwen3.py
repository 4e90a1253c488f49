"""Qwen3 (Yang et al., 2025): Llama's layers with a norm of each head; Qwen3-Embedding among them.

Reference: `transformers.models.qwen3.modeling_qwen3`.
"""

from __future__ import annotations

from typing import Literal

from shoal.runtimes.torch.families.decoder import Traits, WindowKeys, family


class Qwen3Config(WindowKeys, frozen=True, kw_only=True):
    """The keys of config.json that change what is computed."""

    model_type: Literal["qwen3"]
    head_dim: int | None = 128
    attention_bias: bool = False

    def traits(self, number: int) -> Traits:
        """Those of a layer, counted from 0."""
        return Traits(
            window=self.window_of(number),
            qkv_bias=self.attention_bias,
            out_bias=self.attention_bias,
            head_norms=True,
        )


QWEN3 = family(Qwen3Config)
