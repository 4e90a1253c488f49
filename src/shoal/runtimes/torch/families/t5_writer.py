"""T5's decoder, which writes: each token attends to those before it, then to all that was read.

Reference: `transformers.models.t5.modeling_t5`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from shoal.runtimes.torch.attention import Attention
from shoal.runtimes.torch.families.base import Attend, Encoder, Kept, Look
from shoal.runtimes.torch.families.relative import bias_before
from shoal.runtimes.torch.families.t5_parts import Network, T5Config, bias, last_norm
from shoal.runtimes.torch.layers import Layers
from shoal.runtimes.torch.weights import Shape


class T5Writer:
    """See `Writer` for its attributes."""

    def __init__(self, config: T5Config, layers: Layers, encoder: Encoder, words: Tensor) -> None:
        count = (
            config.num_layers if config.num_decoder_layers is None else config.num_decoder_layers
        )
        for name, shape in _tensors(config, count).items():
            layers.expect(name, *shape)
        self.encoder, self.words = encoder, words
        self.begin = config.begin
        self.vocabulary = config.vocab_size
        self.activation_bytes_per_token = config.bytes_per_token(layers)
        distances = bias_before(
            bias("decoder"),
            layers,
            farthest=config.relative_attention_max_distance,
            longest=config.n_positions,
        )
        before = Attention(causal=True, scale=1.0, bias=distances)
        # What was read has no distance from what is written.
        self.looking = Attention(causal=True, scale=1.0)
        self.kept = [Kept(config.num_heads, config.d_kv, before)] * count
        self._layers = [_Layer(config, number, layers) for number in range(count)]
        self._norm = layers.rms_norm(last_norm("decoder"), config.layer_norm_epsilon)
        self._scale = config.d_model**-0.5 if config.scales else 1.0

    def read(self, hidden: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Keys and values of each layer, of the encoder's rows."""
        return (layer.read(hidden) for layer in self._layers)

    def write(self, tokens: Tensor, attends: Sequence[Attend], looks: Sequence[Look]) -> Tensor:
        """Hidden states of more tokens; where one stands, only the number of its keys tells."""
        hidden = torch.embedding(self.words, tokens)
        for layer, attend, look in zip(self._layers, attends, looks, strict=True):
            hidden = layer(hidden, attend, look)
        rows = self._norm(hidden)
        return rows if self._scale == 1 else rows.mul_(self._scale)


class _Layer:
    def __init__(self, config: T5Config, number: int, layers: Layers) -> None:
        at, eps = f"decoder.block.{number}.layer", config.layer_norm_epsilon
        said, read = f"{at}.0.SelfAttention", f"{at}.1.EncDecAttention"
        self._width = config.d_kv
        self._norm = layers.rms_norm(f"{at}.0.layer_norm", eps)
        self._qkv = layers.linear(*(f"{said}.{part}" for part in "qkv"), bias=False)
        self._out = layers.linear(f"{said}.o", bias=False)
        self._look_norm = layers.rms_norm(f"{at}.1.layer_norm", eps)
        self._query = layers.linear(f"{read}.q", bias=False)
        self._read = layers.linear(f"{read}.k", f"{read}.v", bias=False)
        self._look_out = layers.linear(f"{read}.o", bias=False)
        self._network = Network(config, f"{at}.2", layers)

    def read(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        key, value = self._split(self._read(hidden), 2)
        return key, value

    def __call__(self, hidden: Tensor, attend: Attend, look: Look) -> Tensor:
        query, key, value = self._split(self._qkv(self._norm(hidden)), 3)
        hidden = self._out.add(attend(query, key, value), hidden)
        (query,) = self._split(self._query(self._look_norm(hidden)), 1)
        return self._network(self._look_out.add(look(query), hidden))

    def _split(self, rows: Tensor, parts: int) -> tuple[Tensor, ...]:
        """[rows, parts * heads * width] -> [rows, heads, width] each."""
        return rows.view(len(rows), parts, -1, self._width).unbind(1)


def _tensors(config: T5Config, count: int) -> dict[str, Shape]:
    shapes = config.ends("decoder")
    for number in range(count):
        at = f"decoder.block.{number}.layer"
        shapes |= config.attention(f"{at}.0", "SelfAttention")
        shapes |= config.attention(f"{at}.1", "EncDecAttention")
        shapes |= config.network(f"{at}.2")
    return shapes
