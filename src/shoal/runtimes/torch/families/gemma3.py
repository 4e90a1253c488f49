"""Gemma 3's text model (Gemma Team, 2025), EmbeddingGemma among them.

Llama's layers with norms on both sides of attention and network; most layers see a window, and
turn by another base. Reference: `transformers.models.gemma3.modeling_gemma3`.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from shoal.runtimes.torch.attention import Attention
from shoal.runtimes.torch.families.base import Family, check_heads, check_layers
from shoal.runtimes.torch.families.decoder import GENERATOR, WORDS, network, qkv, rename
from shoal.runtimes.torch.families.plan import Design, Norms, Plan, Product, Scale
from shoal.runtimes.torch.families.rotary import RotaryEncoder, tensors
from shoal.runtimes.torch.heads.layout import Classifier, Layout, Linear
from shoal.runtimes.torch.linear import Activation
from shoal.runtimes.torch.rope import Kind, Rope, by_kind, frequencies


class Gemma3Config(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of config.json that change what is computed; some go by the names of two eras.

    `use_bidirectional_attention`: tokens see those after them too, and windows have two sides.
    """

    model_type: Literal["gemma3_text"]
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    max_position_embeddings: int
    head_dim: int = 256
    hidden_activation: Activation = "gelu_pytorch_tanh"
    rms_norm_eps: float = 1e-6
    attention_bias: bool = False
    query_pre_attn_scalar: float = 256
    attn_logit_softcapping: None = None
    sliding_window: int = 4096
    layer_types: list[Kind] | None = None
    sliding_window_pattern: int = 6
    use_bidirectional_attention: bool = False
    rope_parameters: dict[Kind, Rope] = {}
    rope_theta: float = 1_000_000.0
    rope_local_base_freq: float = 10_000.0
    rope_scaling: Rope | None = None
    tie_word_embeddings: bool = True
    final_logit_softcapping: None = None

    def __post_init__(self) -> None:
        check_heads(self, "num_attention_heads", "num_key_value_heads")
        check_layers(self, "layer_types", "num_hidden_layers")

    @property
    def design(self) -> Design:
        """What the model is made of."""
        kinds: list[Kind] = self.layer_types or [
            "sliding_attention" if number % self.sliding_window_pattern else "full_attention"
            for number in range(1, self.num_hidden_layers + 1)
        ]
        return Design(
            vocabulary=self.vocab_size,
            width=self.hidden_size,
            max_tokens=self.max_position_embeddings,
            words=WORDS,
            scale=self.hidden_size**0.5,
            layers=[self._layer(number, kind) for number, kind in enumerate(kinds)],
            frequencies={
                kind: frequencies(rope, self.head_dim, self.max_position_embeddings)
                for kind, rope in self._turns(kinds).items()
            },
            last_norm=self._norm("norm"),
        )

    def _turns(self, kinds: list[Kind]) -> dict[str, Rope]:
        said = dict(self.rope_parameters)
        if self.rope_scaling is not None:  # older files stretch the layers without a window
            said["full_attention"] = self.rope_scaling
        thetas: dict[Kind, float] = {
            "full_attention": self.rope_theta,
            "sliding_attention": self.rope_local_base_freq,
        }
        return by_kind(kinds, said, thetas)

    def _layer(self, number: int, kind: Kind) -> Plan:
        hidden, inner = self.hidden_size, self.intermediate_size
        heads, key_heads, width = self.num_attention_heads, self.num_key_value_heads, self.head_dim
        bias = self.attention_bias
        return Plan(
            at=f"layers.{number}.",
            heads=heads,
            key_heads=key_heads,
            head_width=width,
            attention=self._attention(kind),
            turn=kind,
            qkv=Product(hidden, qkv(heads, key_heads, width), bias),
            out=Product(heads * width, {"self_attn.o_proj": hidden}, bias),
            inner=Product(hidden, network(inner)),
            down=Product(inner, {"mlp.down_proj": hidden}),
            activation=self.hidden_activation,
            gate=0,
            norms=Norms(
                before_attention=self._norm("input_layernorm"),
                attended=self._norm("post_attention_layernorm"),
                before_network=self._norm("pre_feedforward_layernorm"),
                computed=self._norm("post_feedforward_layernorm"),
                query=Scale("self_attn.q_norm", width, self.rms_norm_eps, "shifted"),
                key=Scale("self_attn.k_norm", width, self.rms_norm_eps, "shifted"),
            ),
        )

    def _attention(self, kind: Kind) -> Attention:
        both = self.use_bidirectional_attention
        # One that looks back counts the token itself; of two sides each has half.
        window = self.sliding_window // 2 if both else self.sliding_window - 1
        return Attention(
            causal=not both,
            window=window if kind == "sliding_attention" else None,
            scale=self.query_pre_attn_scalar**-0.5,
        )

    def _norm(self, name: str) -> Scale:
        return Scale(name, self.hidden_size, self.rms_norm_eps, "shifted")


def _heads(config: Gemma3Config) -> Layout:
    return Layout(
        sequence=Classifier((Linear("score", bias=False),), "last"),
        generator=WORDS if config.tie_word_embeddings else GENERATOR,
        tied=config.tie_word_embeddings,
    )


GEMMA3 = Family(Gemma3Config, rename, tensors, RotaryEncoder, _heads, float16=False)
