"""T5 (Raffel et al., 2020): norms before each part, no biases, no positions. Here, what reads.

Both the original and version 1.1 (Flan), whose inner network is gated. Reference:
`transformers.models.t5.modeling_t5`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from shoal.runtimes.torch.attention import Attention, attend
from shoal.runtimes.torch.families.base import Family
from shoal.runtimes.torch.families.relative import relative_bias
from shoal.runtimes.torch.families.t5_parts import WORDS, Network, T5Config, bias, last_norm
from shoal.runtimes.torch.families.t5_writer import T5Writer
from shoal.runtimes.torch.heads.layout import Layout, Linear
from shoal.runtimes.torch.layers import Layers
from shoal.runtimes.torch.packed import Packed
from shoal.runtimes.torch.weights import Shape

#: What gives the logits of the next token, where that is not the table of words.
_GENERATOR = "lm_head.weight"
#: One table, which some checkpoints hold several times.
_ALSO_WORDS = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")


def _rename(stored: str) -> str | None:
    name = stored.removeprefix("transformer.")
    return WORDS if name in _ALSO_WORDS else name


def _tensors(config: T5Config) -> dict[str, Shape]:
    shapes: dict[str, Shape] = {WORDS: (config.vocab_size, config.d_model)}
    for number in range(config.num_layers):
        at = f"encoder.block.{number}.layer"
        shapes |= config.attention(f"{at}.0", "SelfAttention") | config.network(f"{at}.1")
    return shapes | config.ends("encoder")


def _heads(config: T5Config) -> Layout:
    tied = config.tie_word_embeddings
    return Layout(
        tokens=(Linear("classifier"),),
        generator=WORDS if tied else _GENERATOR,
        tied=tied,
        own=_GENERATOR,
    )


class T5:
    """The encoder; see `Reader` for its attributes."""

    def __init__(self, config: T5Config, layers: Layers) -> None:
        self._config = config
        self.vocabulary = config.vocab_size
        self.max_tokens = config.n_positions
        self.width = config.d_model
        self.activation_bytes_per_token = config.bytes_per_token(layers)
        self._words = layers.table(WORDS)
        distances = relative_bias(
            bias("encoder"),
            layers,
            farthest=config.relative_attention_max_distance,
            longest=self.max_tokens,
        )
        # Products are not scaled: the weights were trained that way.
        attention = Attention(scale=1.0, bias=distances)
        self._layers = [_Layer(config, n, attention, layers) for n in range(config.num_layers)]
        self._norm = layers.rms_norm(last_norm("encoder"), config.layer_norm_epsilon)

    def forward(self, packed: Packed) -> Tensor:
        """Hidden states after the last layer, [computed, hidden]."""
        hidden = torch.embedding(self._words, packed.tokens)
        for layer in self._layers:
            hidden = layer(hidden, packed)
        return self._norm(hidden)

    def writer(self, layers: Layers) -> T5Writer:
        """The decoder; see `Reader`."""
        return T5Writer(self._config, layers, self, self._words)


class _Layer:
    def __init__(self, config: T5Config, number: int, attends: Attention, layers: Layers) -> None:
        at = f"encoder.block.{number}.layer"
        qkv = [f"{at}.0.SelfAttention.{part}" for part in "qkv"]
        self._heads, self._attention = config.num_heads, attends
        self._norm = layers.rms_norm(f"{at}.0.layer_norm", config.layer_norm_epsilon)
        self._qkv = layers.linear(*qkv, bias=False)
        self._out = layers.linear(f"{at}.0.SelfAttention.o", bias=False)
        self._network = Network(config, f"{at}.1", layers)

    def __call__(self, hidden: Tensor, packed: Packed) -> Tensor:
        attended = attend(self._qkv(self._norm(hidden)), packed, self._heads, self._attention)
        return self._network(self._out.add(attended, hidden))


# In float16 the sums of larger ones are infinite, and the reference computes parts in float32.
T5_ENCODER = Family(T5Config, _rename, _tensors, T5, _heads, float16=False)
