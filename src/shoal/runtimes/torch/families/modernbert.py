"""ModernBERT (Warner et al., 2024): rotary positions, most layers see a window of the text.

Serves `ModernBertModel` and every ``ModernBertFor...``, whose encoder sits under ``model.``.
Reference: `transformers.models.modernbert.modeling_modernbert`.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from shoal.runtimes.torch.attention import Attention
from shoal.runtimes.torch.families.base import Family, check_heads, check_layers
from shoal.runtimes.torch.families.plan import Design, Norms, Plan, Product, Scale
from shoal.runtimes.torch.families.rotary import RotaryEncoder, tensors
from shoal.runtimes.torch.heads.layout import Classifier, Layout, Linear, MaskedLM, Norm
from shoal.runtimes.torch.linear import Activation
from shoal.runtimes.torch.rope import Kind, Rope, by_kind, frequencies

_WORDS = "embeddings.tok_embeddings.weight"


class ModernBertConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of config.json that change what is computed; some go by the names of two eras."""

    model_type: Literal["modernbert"]
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    max_position_embeddings: int
    hidden_activation: Activation = "gelu"
    norm_eps: float = 1e-5
    norm_bias: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False
    local_attention: int = 128
    layer_types: list[Kind] | None = None
    global_attn_every_n_layers: int = 3
    rope_parameters: dict[Kind, Rope] = {}
    global_rope_theta: float = 160_000.0
    local_rope_theta: float = 10_000.0
    classifier_pooling: Literal["cls", "mean"] = "cls"
    classifier_activation: Activation = "gelu"
    classifier_bias: bool = False
    decoder_bias: bool = True
    tie_word_embeddings: bool = True

    def __post_init__(self) -> None:
        check_heads(self, "hidden_size", "num_attention_heads")
        check_layers(self, "layer_types", "num_hidden_layers")

    @property
    def design(self) -> Design:
        """What the model is made of."""
        kinds = self.layer_types or [
            "sliding_attention" if number % self.global_attn_every_n_layers else "full_attention"
            for number in range(self.num_hidden_layers)
        ]
        thetas: dict[Kind, float] = {
            "full_attention": self.global_rope_theta,
            "sliding_attention": self.local_rope_theta,
        }
        turns = by_kind(kinds, self.rope_parameters, thetas)
        return Design(
            vocabulary=self.vocab_size,
            width=self.hidden_size,
            max_tokens=self.max_position_embeddings,
            words=_WORDS,
            layers=[self._layer(number, kind) for number, kind in enumerate(kinds)],
            frequencies={
                kind: frequencies(
                    rope,
                    self.hidden_size // self.num_attention_heads,
                    self.max_position_embeddings,
                )
                for kind, rope in turns.items()
            },
            first_norm=self._norm("embeddings.norm"),
            last_norm=self._norm("final_norm"),
        )

    def _layer(self, number: int, kind: Kind) -> Plan:
        hidden, inner, heads = self.hidden_size, self.intermediate_size, self.num_attention_heads
        window = self.local_attention // 2 if kind == "sliding_attention" else None
        return Plan(
            at=f"layers.{number}.",
            heads=heads,
            key_heads=heads,
            head_width=hidden // heads,
            attention=Attention(window=window),
            turn=kind,
            qkv=Product(hidden, {"attn.Wqkv": 3 * hidden}, self.attention_bias),
            out=Product(hidden, {"attn.Wo": hidden}, self.attention_bias),
            inner=Product(hidden, {"mlp.Wi": 2 * inner}, self.mlp_bias),
            down=Product(inner, {"mlp.Wo": hidden}, self.mlp_bias),
            activation=self.hidden_activation,
            gate=0,
            norms=Norms(
                # What the first layer takes was normed when it was embedded.
                before_attention=self._norm("attn_norm") if number else None,
                before_network=self._norm("mlp_norm"),
            ),
        )

    def _norm(self, name: str) -> Scale:
        kind: Literal["layer", "unbiased"] = "layer" if self.norm_bias else "unbiased"
        return Scale(name, self.hidden_size, self.norm_eps, kind)


def _rename(stored: str) -> str | None:
    return stored.removeprefix("model.")


def _heads(config: ModernBertConfig) -> Layout:
    head = (
        Linear("head.dense", config.classifier_activation, config.classifier_bias),
        Norm("head.norm", config.norm_eps, config.norm_bias),
    )
    labels = (*head, Linear("classifier"))
    return Layout(
        sequence=Classifier(labels, config.classifier_pooling),
        tokens=labels,
        masked_lm=MaskedLM(
            head,
            _WORDS if config.tie_word_embeddings else "decoder.weight",
            "decoder.bias" if config.decoder_bias else None,
            own=("decoder.weight", "decoder.bias"),
        ),
    )


MODERNBERT = Family(ModernBertConfig, _rename, tensors, RotaryEncoder, _heads)
