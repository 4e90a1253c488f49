"""Vision transformer (Dosovitskiy et al., 2020): squares of an image as tokens, a class token first.

Serves `ViTModel` and `ViTForImageClassification`, whose encoder sits under ``vit.``. Reference:
`transformers.models.vit.modeling_vit`.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from torch import Tensor

from shoal.runtimes.torch.blocks import Block, Names, PreNorm
from shoal.runtimes.torch.families.base import Family
from shoal.runtimes.torch.heads.layout import Classifier, Layout, Linear
from shoal.runtimes.torch.layers import Layers
from shoal.runtimes.torch.linear import Activation
from shoal.runtimes.torch.media import Takes
from shoal.runtimes.torch.packed import Packed
from shoal.runtimes.torch.patches import Patches, Squares
from shoal.runtimes.torch.weights import Shape

_NAMES = Names(
    attention_norm="layernorm_before",
    query="attention.attention.query",
    key="attention.attention.key",
    value="attention.attention.value",
    out="attention.output.dense",
    products_norm="layernorm_after",
    up="intermediate.dense",
    down="output.dense",
)


class ViTConfig(msgspec.Struct, frozen=True):
    """The keys of config.json that change what is computed."""

    model_type: Literal["vit"]
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: Activation = "gelu"
    layer_norm_eps: float = 1e-12
    image_size: int = 224
    patch_size: int = 16
    num_channels: Literal[3] = 3
    qkv_bias: bool = True

    @property
    def squares(self) -> Squares:
        return Squares(
            self.image_size,
            self.patch_size,
            self.hidden_size,
            "embeddings.patch_embeddings.projection",
            "embeddings.position_embeddings",
            "embeddings.cls_token",
            flat=False,
        )

    @property
    def block(self) -> Block:
        return Block(
            _NAMES,
            self.hidden_size,
            self.intermediate_size,
            self.num_attention_heads,
            self.layer_norm_eps,
            self.hidden_act,
            biased=(self.qkv_bias, self.qkv_bias, self.qkv_bias),
        )


def _rename(stored: str) -> str | None:
    name = stored.removeprefix("vit.")
    # Only where squares are hidden, in training.
    return None if name == "embeddings.mask_token" else name


def _takes(config: ViTConfig) -> Takes:
    return config.squares.takes()


def _tensors(config: ViTConfig) -> dict[str, Shape]:
    hidden = config.hidden_size
    shapes = config.squares.tensors()
    shapes |= {"layernorm.weight": (hidden,), "layernorm.bias": (hidden,)}
    for number in range(config.num_hidden_layers):
        shapes |= config.block.tensors(f"encoder.layer.{number}")
    return shapes


def _heads(_: ViTConfig) -> Layout:
    return Layout(sequence=Classifier((Linear("classifier"),)))


class ViT:
    """The encoder; see `Encoder` for its attributes."""

    def __init__(self, config: ViTConfig, layers: Layers) -> None:
        self.vocabulary = 0
        self.max_tokens = config.squares.rows
        self.width = config.hidden_size
        self.activation_bytes_per_token = config.block.bytes_per_token(layers)
        self._patches = Patches(config.squares, layers, "vit")
        self._blocks = [
            PreNorm(config.block, f"encoder.layer.{number}", layers)
            for number in range(config.num_hidden_layers)
        ]
        self._norm = layers.layer_norm("layernorm", config.layer_norm_eps)

    def forward(self, packed: Packed) -> Tensor:
        """Hidden states after the last layer, [computed, hidden]; an item's first is its class."""
        assert packed.media is not None, "no item of tokens comes here"
        hidden = self._patches(packed.media)
        for block in self._blocks:
            hidden = block(hidden, packed)
        return self._norm(hidden)


VIT = Family(ViTConfig, _rename, _tensors, ViT, _heads, takes=_takes)
