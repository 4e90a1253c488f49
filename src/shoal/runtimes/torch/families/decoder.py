"""Language models of Llama's kind, taken as encoders: what their configs and tensors share.

A token attends to those before it, norms are root mean squares before attention and network, and
heads of the query share keys. Reference: `transformers.models.llama.modeling_llama`.
"""

from __future__ import annotations

from typing import ClassVar, TypeVar

import msgspec

from shoal.runtimes.torch.attention import Attention
from shoal.runtimes.torch.families.base import Family, check_heads, check_layers
from shoal.runtimes.torch.families.plan import Design, Norms, Plan, Product, Scale
from shoal.runtimes.torch.families.rotary import RotaryEncoder, tensors
from shoal.runtimes.torch.heads.layout import Classifier, Layout, Linear
from shoal.runtimes.torch.linear import Activation
from shoal.runtimes.torch.rope import Kind, RopeKeys, frequencies

_TURN = "all"
#: The table of words.
WORDS = "embed_tokens.weight"
#: What gives the logits of the next token, where that is another one.
GENERATOR = "lm_head.weight"


def qkv(heads: int, key_heads: int, width: int) -> dict[str, int]:
    """The tensors of queries, keys and values, and how many rows each has."""
    parts = {"q_proj": heads, "k_proj": key_heads, "v_proj": key_heads}
    return {f"self_attn.{name}": count * width for name, count in parts.items()}


def network(inner: int) -> dict[str, int]:
    """The tensors of both halves of the gated network, and how many rows each has."""
    return {"mlp.gate_proj": inner, "mlp.up_proj": inner}


class Traits(msgspec.Struct, frozen=True):
    """What a layer has that not all have.

    Attributes:
        window: to how many tokens a token attends, itself included; None: to all.
        turns: whether positions count.
        qkv_bias, out_bias, mlp_bias: of its products.
        head_norms: of each head of query and key.
    """

    window: int | None = None
    turns: bool = True
    qkv_bias: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    head_norms: bool = False


class DecoderKeys(RopeKeys, frozen=True, kw_only=True):
    """The keys of config.json that change what is computed, as far as all these models have them.

    `is_causal`: off in models that were taught to look ahead.
    """

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    max_position_embeddings: int
    hidden_act: Activation = "silu"
    rms_norm_eps: float = 1e-6
    tie_word_embeddings: bool = False
    is_causal: bool = True

    #: Where config.json says none.
    theta: ClassVar[float] = 10_000.0

    def __post_init__(self) -> None:
        if self.head_dim is None:
            check_heads(self, "hidden_size", "num_attention_heads")
        if self.num_key_value_heads is not None:
            check_heads(self, "num_attention_heads", "num_key_value_heads")

    def traits(self, number: int) -> Traits:
        """Those of a layer, counted from 0."""
        raise NotImplementedError

    @property
    def head_width(self) -> int:
        return self.head_dim or self.hidden_size // self.num_attention_heads

    @property
    def design(self) -> Design:
        """What the model is made of."""
        turns = frequencies(self.rope(self.theta), self.head_width, self.max_position_embeddings)
        return Design(
            vocabulary=self.vocab_size,
            width=self.hidden_size,
            max_tokens=self.max_position_embeddings,
            words=WORDS,
            layers=[self._layer(number) for number in range(self.num_hidden_layers)],
            frequencies={_TURN: turns},
            last_norm=self._norm("norm"),
        )

    def _layer(self, number: int) -> Plan:
        traits = self.traits(number)
        hidden, inner = self.hidden_size, self.intermediate_size
        heads, width = self.num_attention_heads, self.head_width
        key_heads = self.num_key_value_heads or heads
        return Plan(
            at=f"layers.{number}.",
            heads=heads,
            key_heads=key_heads,
            head_width=width,
            attention=self._attention(traits.window),
            turn=_TURN if traits.turns else None,
            qkv=Product(hidden, qkv(heads, key_heads, width), traits.qkv_bias),
            out=Product(heads * width, {"self_attn.o_proj": hidden}, traits.out_bias),
            inner=Product(hidden, network(inner), traits.mlp_bias),
            down=Product(inner, {"mlp.down_proj": hidden}, traits.mlp_bias),
            activation=self.hidden_act,
            gate=0,
            norms=Norms(
                before_attention=self._norm("input_layernorm"),
                before_network=self._norm("post_attention_layernorm"),
                query=self._head_norm("self_attn.q_norm") if traits.head_norms else None,
                key=self._head_norm("self_attn.k_norm") if traits.head_norms else None,
            ),
        )

    def _attention(self, window: int | None) -> Attention:
        # The reference counts a token itself to a window that looks back, not to one of both sides.
        away = window - 1 if window is not None and self.is_causal else window
        return Attention(causal=self.is_causal, window=away)

    def _norm(self, name: str) -> Scale:
        return Scale(name, self.hidden_size, self.rms_norm_eps, "rms")

    def _head_norm(self, name: str) -> Scale:
        return Scale(name, self.head_width, self.rms_norm_eps, "rms")


class WindowKeys(DecoderKeys, frozen=True, kw_only=True):
    """Those of models in which some layers may see a window: Qwen's way of saying which."""

    use_sliding_window: bool = False
    sliding_window: int | None = None
    max_window_layers: int = 28
    layer_types: list[Kind] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_layers(self, "layer_types", "num_hidden_layers")
        if "sliding_attention" in (self.layer_types or ()) and self.window is None:
            raise ValueError("layer_types names sliding layers, but use_sliding_window is off")

    @property
    def window(self) -> int | None:
        """Of the layers that have one."""
        return self.sliding_window if self.use_sliding_window else None

    def window_of(self, number: int) -> int | None:
        """Of a layer, counted from 0."""
        if self.layer_types is not None:
            return self.window if self.layer_types[number] == "sliding_attention" else None
        return self.window if number >= self.max_window_layers else None


Keys = TypeVar("Keys", bound=DecoderKeys)


def rename(stored: str) -> str | None:
    """A tensor's name without the prefix that heads' classes put before it."""
    # Angles were stored once; they follow from the config.
    return None if stored.endswith("rotary_emb.inv_freq") else stored.removeprefix("model.")


def _heads(config: DecoderKeys) -> Layout:
    return Layout(
        sequence=Classifier((Linear("score", bias=False),), "last"),
        tokens=(Linear("score"),),
        generator=WORDS if config.tie_word_embeddings else GENERATOR,
        tied=config.tie_word_embeddings,
    )


def family(keys: type[Keys]) -> Family[Keys]:
    """The family of models whose config.json holds these keys."""
    return Family(keys, rename, tensors, RotaryEncoder, _heads)
