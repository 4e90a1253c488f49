"""Qwen2 (Yang et al., 2024): Llama's layers with biased queries, keys and values.

Reference: `transformers.models.qwen2.modeling_qwen2`.
"""

from __future__ import annotations

from typing import Literal

from shoal.runtimes.torch.families.decoder import Traits, WindowKeys, family


class Qwen2Config(WindowKeys, frozen=True, kw_only=True):
    """The keys of config.json that change what is computed."""

    model_type: Literal["qwen2"]

    def traits(self, number: int) -> Traits:
        """Those of a layer, counted from 0."""
        return Traits(window=self.window_of(number), qkv_bias=True)


QWEN2 = family(Qwen2Config)
