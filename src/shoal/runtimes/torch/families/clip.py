"""CLIP (Radford et al., 2021): texts and images in one space.

Serves `CLIPModel`. A text is what its end token says, an image what its class token says, each
projected: `get_text_features` and `get_image_features` of the reference,
`transformers.models.clip.modeling_clip`.
"""

from __future__ import annotations

from typing import Literal

import msgspec
import torch
from torch import Tensor

from shoal.runtimes.torch.attention import Attention
from shoal.runtimes.torch.families.base import Family
from shoal.runtimes.torch.families.towers import (
    VISION,
    Blocks,
    TextSide,
    TextTower,
    TwoTowers,
    VisionSide,
    rename,
)
from shoal.runtimes.torch.heads.layout import Layout, Similarity
from shoal.runtimes.torch.layers import Layers
from shoal.runtimes.torch.linear import Activation
from shoal.runtimes.torch.media import Takes
from shoal.runtimes.torch.packed import Packed
from shoal.runtimes.torch.patches import Patches, Squares
from shoal.runtimes.torch.weights import Shape

#: Configs from before the end token was told right say this one; the largest id is meant.
_END_UNTOLD = 2


class ClipText(TextSide, frozen=True, kw_only=True):
    """`text_config`, with the reference's defaults: configs leave those out."""

    vocab_size: int = 49408
    hidden_size: int = 512
    intermediate_size: int = 2048
    num_attention_heads: int = 8
    max_position_embeddings: int = 77
    hidden_act: Activation = "quick_gelu"
    layer_norm_eps: float = 1e-5
    eos_token_id: int = 49407


class ClipVision(VisionSide, frozen=True, kw_only=True):
    """`vision_config`, likewise."""

    hidden_size: int = 768
    intermediate_size: int = 3072
    patch_size: int = 32
    hidden_act: Activation = "quick_gelu"
    layer_norm_eps: float = 1e-5
    num_channels: Literal[3] = 3

    @property
    def entrance(self) -> Squares:
        return self.squares(first="class_embedding", bias=False)


class ClipConfig(msgspec.Struct, frozen=True):
    """The keys of config.json that change what is computed."""

    model_type: Literal["clip"]
    text_config: ClipText
    vision_config: ClipVision
    projection_dim: int = 512


def _takes(config: ClipConfig) -> Takes:
    return config.vision_config.entrance.takes()


def _tensors(config: ClipConfig) -> dict[str, Shape]:
    text, vision = config.text_config, config.vision_config
    return {
        **text.tensors(),
        **vision.tensors(),
        **vision.entrance.tensors(),
        f"{VISION}.pre_layrnorm.weight": (vision.hidden_size,),
        f"{VISION}.pre_layrnorm.bias": (vision.hidden_size,),
        "text_projection.weight": (config.projection_dim, text.hidden_size),
        "visual_projection.weight": (config.projection_dim, vision.hidden_size),
    }


def _heads(_: ClipConfig) -> Layout:
    return Layout(similarity=Similarity("logit_scale"))


def _encoder(config: ClipConfig, layers: Layers) -> TwoTowers:
    text, vision = _Text(config.text_config, layers), _Vision(config.vision_config, layers)
    room = max(text.bytes_per_token, vision.bytes_per_token)
    return TwoTowers(config.text_config, config.projection_dim, room, text, vision)


class _Text:
    def __init__(self, side: ClipText, layers: Layers) -> None:
        self._tower = TextTower(side, layers, Attention(causal=True))
        self._project = layers.linear("text_projection", bias=False)
        self._end = side.eos_token_id
        self.bytes_per_token = self._tower.bytes_per_token

    def __call__(self, packed: Packed) -> Tensor:
        return self._project(self._tower(packed)[self._ends(packed)])

    def _ends(self, packed: Packed) -> Tensor:
        """Where in the packed rows each text's end token stands, int64 [items]."""
        tokens = packed.tokens
        marks = tokens if self._end == _END_UNTOLD else (tokens == self._end).int()
        places = [
            marks[group.start : group.stop].view(group.items, group.length).argmax(1)
            for group in packed.groups
        ]
        return packed.offsets[:-1] + torch.cat(places)


class _Vision:
    def __init__(self, side: ClipVision, layers: Layers) -> None:
        self._patches = Patches(side.entrance, layers, "clip")
        self._before = layers.layer_norm(f"{VISION}.pre_layrnorm", side.layer_norm_eps)
        self._blocks = Blocks(VISION, side, layers, Attention())
        self._after = layers.layer_norm(f"{VISION}.post_layernorm", side.layer_norm_eps)
        self._project = layers.linear("visual_projection", bias=False)
        self.bytes_per_token = self._blocks.bytes_per_token

    def __call__(self, packed: Packed, images: Tensor) -> Tensor:
        hidden = self._before(self._patches(images))
        hidden = self._blocks(hidden, packed)
        return self._project(self._after(hidden[packed.offsets[:-1]]))


CLIP = Family(ClipConfig, rename, _tensors, _encoder, _heads, takes=_takes, pools=True)
