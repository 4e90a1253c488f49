"""What T5's encoder and decoder share: their config, the tensors of a part of a block, and the inner network.

Reference: `transformers.models.t5.modeling_t5`.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from torch import Tensor

from shoal.runtimes.torch.layers import Layers
from shoal.runtimes.torch.weights import Shape

#: The table of words, of both.
WORDS = "shared.weight"


class T5Config(msgspec.Struct, frozen=True):
    """The keys of config.json that change what is computed.

    `scale_decoder_outputs`: said by transformers 5; before, it followed from `tie_word_embeddings`.
    """

    model_type: Literal["t5"]
    vocab_size: int
    d_model: int
    d_kv: int
    d_ff: int
    num_layers: int
    num_heads: int
    num_decoder_layers: int | None = None
    relative_attention_num_buckets: int = 32
    relative_attention_max_distance: int = 128
    layer_norm_epsilon: float = 1e-6
    feed_forward_proj: Literal["relu", "gated-gelu"] = "relu"
    is_decoder: Literal[False] = False
    tie_word_embeddings: bool = True
    scale_decoder_outputs: bool | None = None
    decoder_start_token_id: int | None = None
    pad_token_id: int | None = 0
    #: Distances may be any, but weights are trained with so many tokens; many configs say so.
    n_positions: int = 512

    def __post_init__(self) -> None:
        buckets, farthest = (
            self.relative_attention_num_buckets,
            self.relative_attention_max_distance,
        )
        if buckets < 4 or buckets % 4 or farthest <= buckets // 2:
            raise ValueError(
                f"relative_attention_num_buckets {buckets} must be a multiple of 4, and "
                f"relative_attention_max_distance {farthest} more than half of it"
            )

    @property
    def gated(self) -> bool:
        """Whether the inner network is the product of two."""
        return self.feed_forward_proj == "gated-gelu"

    @property
    def inner(self) -> int:
        """Width of all heads together."""
        return self.num_heads * self.d_kv

    @property
    def begin(self) -> int:
        """What texts begin with: padding, unless another token is said."""
        start = self.decoder_start_token_id
        return (self.pad_token_id or 0) if start is None else start

    @property
    def scales(self) -> bool:
        """Whether what logits are made of is divided by the root of its width, as in the original."""
        said = self.scale_decoder_outputs
        return self.tie_word_embeddings if said is None else said

    def bytes_per_token(self, layers: Layers) -> int:
        """Peak of a row: itself and its norm; and what is attended, fused q/k/v, or both inner rows."""
        stream = 2 * self.d_model * layers.stream_dtype.itemsize
        return stream + max(4 * self.inner, 2 * self.d_ff) * layers.dtype.itemsize

    def attention(self, at: str, kind: str) -> dict[str, Shape]:
        """The tensors of a part that attends, by shape."""
        shapes = {f"{at}.{kind}.{part}.weight": (self.inner, self.d_model) for part in "qkv"}
        shapes[f"{at}.{kind}.o.weight"] = (self.d_model, self.inner)
        return shapes | {f"{at}.layer_norm.weight": (self.d_model,)}

    def network(self, at: str) -> dict[str, Shape]:
        """Those of an inner network."""
        parts = ("wi_0", "wi_1") if self.gated else ("wi",)
        up = (self.d_ff, self.d_model)
        shapes: dict[str, Shape] = {f"{at}.DenseReluDense.{part}.weight": up for part in parts}
        shapes[f"{at}.DenseReluDense.wo.weight"] = (self.d_model, self.d_ff)
        return shapes | {f"{at}.layer_norm.weight": (self.d_model,)}

    def ends(self, side: str) -> dict[str, Shape]:
        """Of the encoder or the decoder, those outside of its blocks or of the first alone."""
        buckets = self.relative_attention_num_buckets, self.num_heads
        return {bias(side): buckets, f"{last_norm(side)}.weight": (self.d_model,)}


def bias(side: str) -> str:
    """The table of what is added by distance, which all layers share."""
    return f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"


def last_norm(side: str) -> str:
    """What follows the last block."""
    return f"{side}.final_layer_norm"


class Network:
    """The second half of a block, each row by itself: [rows, hidden] -> the same."""

    def __init__(self, config: T5Config, at: str, layers: Layers) -> None:
        inner = f"{at}.DenseReluDense"
        self._norm = layers.rms_norm(f"{at}.layer_norm", config.layer_norm_epsilon)
        if config.gated:
            self._up = layers.linear(f"{inner}.wi_0", activation="gelu_new", bias=False)
        else:
            self._up = layers.linear(f"{inner}.wi", activation="relu", bias=False)
        self._gate = layers.linear(f"{inner}.wi_1", bias=False) if config.gated else None
        self._down = layers.linear(f"{inner}.wo", bias=False)

    def __call__(self, hidden: Tensor) -> Tensor:
        rows = self._norm(hidden)
        inner = self._up(rows)
        if self._gate is not None:
            inner.mul_(self._gate(rows))
        return self._down.add(inner, hidden)
