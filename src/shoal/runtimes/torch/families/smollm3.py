"""SmolLM3 (Hugging Face, 2025): Llama's layers, in some of which positions count for nothing.

Reference: `transformers.models.smollm3.modeling_smollm3`.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from shoal.runtimes.torch.families.decoder import Traits, WindowKeys, family


class SmolLM3Config(WindowKeys, frozen=True, kw_only=True):
    """The keys of config.json that change what is computed."""

    model_type: Literal["smollm3"]
    num_key_value_heads: int | None = 4
    attention_bias: bool = False
    mlp_bias: bool = False
    max_window_layers: int = 0
    no_rope_layers: list[Literal[0, 1]] | None = None
    no_rope_layer_interval: int = 4
    tie_word_embeddings: bool = True

    theta: ClassVar[float] = 2_000_000.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.no_rope_layers is not None and len(self.no_rope_layers) < self.num_hidden_layers:
            raise ValueError(
                f"no_rope_layers names {len(self.no_rope_layers)} layers, "
                f"num_hidden_layers says {self.num_hidden_layers}"
            )

    def traits(self, number: int) -> Traits:
        """Those of a layer, counted from 0."""
        return Traits(
            window=self.window_of(number),
            turns=self._turns(number),
            qkv_bias=self.attention_bias,
            out_bias=self.attention_bias,
            mlp_bias=self.mlp_bias,
        )

    def window_of(self, number: int) -> int | None:
        """Of a layer, counted from 0: those have one that do not turn, if nothing else is said."""
        if self.layer_types is None and self._turns(number):
            return None
        return super().window_of(number)

    def _turns(self, number: int) -> bool:
        # The list says 1 for layers that do turn, whatever its name.
        if self.no_rope_layers is not None:
            return bool(self.no_rope_layers[number])
        return (number + 1) % self.no_rope_layer_interval != 0


SMOLLM3 = family(SmolLM3Config)
