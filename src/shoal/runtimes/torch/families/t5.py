"""The encoder of T5 (Raffel et al., 2020): norms before each part, no biases, no positions.

Both the original and version 1.1 (Flan), whose inner network is gated. Reference:
`transformers.models.t5.modeling_t5`.
"""

from __future__ import annotations

from typing import Literal

import msgspec
import torch
from torch import Tensor

from shoal.runtimes.torch.attention import Attention, attend
from shoal.runtimes.torch.families.base import Family
from shoal.runtimes.torch.families.relative import relative_bias
from shoal.runtimes.torch.heads.layout import Layout, Linear
from shoal.runtimes.torch.layers import Layers
from shoal.runtimes.torch.packed import Packed
from shoal.runtimes.torch.weights import Shape

_WORDS = "shared.weight"
_BIAS = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
_LAST_NORM = "encoder.final_layer_norm"


class T5Config(msgspec.Struct, frozen=True):
    """The keys of config.json that change what is computed."""

    model_type: Literal["t5"]
    vocab_size: int
    d_model: int
    d_kv: int
    d_ff: int
    num_layers: int
    num_heads: int
    relative_attention_num_buckets: int = 32
    relative_attention_max_distance: int = 128
    layer_norm_epsilon: float = 1e-6
    feed_forward_proj: Literal["relu", "gated-gelu"] = "relu"
    is_decoder: Literal[False] = False
    #: Distances may be any, but weights are trained with so many tokens; many configs say so.
    n_positions: int = 512

    def __post_init__(self) -> None:
        buckets, farthest = (
            self.relative_attention_num_buckets,
            self.relative_attention_max_distance,
        )
        if buckets < 4 or buckets % 4 or farthest <= buckets // 4:
            raise ValueError(
                f"relative_attention_num_buckets {buckets} must be a multiple of 4, and "
                f"relative_attention_max_distance {farthest} more than a quarter of it"
            )

    @property
    def gated(self) -> bool:
        """Whether the inner network is the product of two."""
        return self.feed_forward_proj == "gated-gelu"


def _rename(stored: str) -> str | None:
    name = stored.removeprefix("transformer.")
    return _WORDS if name == "encoder.embed_tokens.weight" else name  # one table, stored twice


def _tensors(config: T5Config) -> dict[str, Shape]:
    hidden, inner = config.d_model, config.num_heads * config.d_kv
    up = (config.d_ff, hidden)
    shapes: dict[str, Shape] = {
        _WORDS: (config.vocab_size, hidden),
        _BIAS: (config.relative_attention_num_buckets, config.num_heads),
        f"{_LAST_NORM}.weight": (hidden,),
    }
    for layer in range(config.num_layers):
        attention, network = (f"encoder.block.{layer}.layer.{n}" for n in (0, 1))
        for part in ("q", "k", "v"):
            shapes[f"{attention}.SelfAttention.{part}.weight"] = (inner, hidden)
        shapes[f"{attention}.SelfAttention.o.weight"] = (hidden, inner)
        for part in ("wi_0", "wi_1") if config.gated else ("wi",):
            shapes[f"{network}.DenseReluDense.{part}.weight"] = up
        shapes[f"{network}.DenseReluDense.wo.weight"] = (hidden, config.d_ff)
        for at in (attention, network):
            shapes[f"{at}.layer_norm.weight"] = (hidden,)
    return shapes


def _heads(_: T5Config) -> Layout:
    return Layout(tokens=(Linear("classifier"),))


class T5:
    """The encoder; see `Encoder` for its attributes."""

    def __init__(self, config: T5Config, layers: Layers) -> None:
        hidden, inner = config.d_model, config.num_heads * config.d_kv
        self.vocabulary = config.vocab_size
        self.max_tokens = config.n_positions
        self.width = hidden
        # Residual and normalised rows; attended rows and fused q/k/v, or both inner rows.
        self.activation_bytes_per_token = (
            2 * hidden * layers.stream_dtype.itemsize
            + max(4 * inner, 2 * config.d_ff) * layers.dtype.itemsize
        )
        self._words = layers.table(_WORDS)
        bias = relative_bias(
            _BIAS,
            layers,
            farthest=config.relative_attention_max_distance,
            longest=self.max_tokens,
        )
        # Products are not scaled: the weights were trained that way.
        attention = Attention(scale=1.0, bias=bias)
        self._layers = [_Layer(config, n, attention, layers) for n in range(config.num_layers)]
        self._norm = layers.rms_norm(_LAST_NORM, config.layer_norm_epsilon)

    def forward(self, packed: Packed) -> Tensor:
        """Hidden states after the last layer, [computed, hidden]."""
        hidden = torch.embedding(self._words, packed.tokens)
        for layer in self._layers:
            hidden = layer(hidden, packed)
        return self._norm(hidden)


class _Layer:
    def __init__(self, config: T5Config, number: int, attends: Attention, layers: Layers) -> None:
        attention, network = (f"encoder.block.{number}.layer.{n}" for n in (0, 1))
        eps = config.layer_norm_epsilon
        qkv = [f"{attention}.SelfAttention.{part}" for part in ("q", "k", "v")]
        inner = f"{network}.DenseReluDense"
        self._heads, self._attention = config.num_heads, attends
        self._norm = layers.rms_norm(f"{attention}.layer_norm", eps)
        self._qkv = layers.linear(*qkv, bias=False)
        self._out = layers.linear(f"{attention}.SelfAttention.o", bias=False)
        self._inner_norm = layers.rms_norm(f"{network}.layer_norm", eps)
        if config.gated:
            self._up = layers.linear(f"{inner}.wi_0", activation="gelu_new", bias=False)
        else:
            self._up = layers.linear(f"{inner}.wi", activation="relu", bias=False)
        self._gate = layers.linear(f"{inner}.wi_1", bias=False) if config.gated else None
        self._down = layers.linear(f"{inner}.wo", bias=False)

    def __call__(self, hidden: Tensor, packed: Packed) -> Tensor:
        attended = attend(self._qkv(self._norm(hidden)), packed, self._heads, self._attention)
        hidden = self._out.add(attended, hidden)
        rows = self._inner_norm(hidden)
        inner = self._up(rows)
        if self._gate is not None:
            inner.mul_(self._gate(rows))
        return self._down.add(inner, hidden)


# In float16 the sums of larger ones are infinite, and the reference computes parts in float32.
T5_ENCODER = Family(T5Config, _rename, _tensors, T5, _heads, float16=False)
