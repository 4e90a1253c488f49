"""Mistral (Jiang et al., 2023): Llama's layers that see a window.

Reference: `transformers.models.mistral.modeling_mistral`.
"""

from __future__ import annotations

from typing import Literal

from shoal.runtimes.torch.families.decoder import DecoderKeys, Traits, family


class MistralConfig(DecoderKeys, frozen=True, kw_only=True):
    """The keys of config.json that change what is computed."""

    model_type: Literal["mistral"]
    num_key_value_heads: int | None = 8
    sliding_window: int | None = 4096

    def traits(self, number: int) -> Traits:
        """Those of any layer."""
        return Traits(window=self.sliding_window)


MISTRAL = family(MistralConfig)
