"""Llama (Touvron et al., 2023) and what is built like it, SmolLM and SmolLM2 among others.

Reference: `transformers.models.llama.modeling_llama`.
"""

from __future__ import annotations

from typing import Literal

from shoal.runtimes.torch.families.decoder import DecoderKeys, Traits, family


class LlamaConfig(DecoderKeys, frozen=True, kw_only=True):
    """The keys of config.json that change what is computed."""

    model_type: Literal["llama"]
    attention_bias: bool = False
    mlp_bias: bool = False

    def traits(self, number: int) -> Traits:
        """Those of any layer."""
        bias = self.attention_bias
        return Traits(qkv_bias=bias, out_bias=bias, mlp_bias=self.mlp_bias)


LLAMA = family(LlamaConfig)
