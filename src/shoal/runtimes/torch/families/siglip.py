"""SigLIP (Zhai et al., 2023): texts and images in one space, each pair judged by itself.

Serves `SiglipModel`, of SigLIP and of SigLIP 2 with images of one size. Texts are filled up to the
longest, as the model was trained, and are what the last token says; an image is what a learnt probe
sees in all of its squares. Reference: `transformers.models.siglip.modeling_siglip`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from shoal.runtimes.torch.attention import Attention
from shoal.runtimes.torch.configs import read_config
from shoal.runtimes.torch.families.base import Family
from shoal.runtimes.torch.families.towers import (
    TEXT,
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
from shoal.runtimes.torch.media import Takes, laid_out
from shoal.runtimes.torch.packed import Filling, Packed
from shoal.runtimes.torch.patches import Patches
from shoal.runtimes.torch.weights import Shape

_PROBE = f"{VISION}.head"


class SiglipText(TextSide, frozen=True, kw_only=True):
    """`text_config`, with the reference's defaults: configs leave those out."""

    vocab_size: int = 32000
    hidden_size: int = 768
    intermediate_size: int = 3072
    max_position_embeddings: int = 64
    hidden_act: Activation = "gelu_pytorch_tanh"
    layer_norm_eps: float = 1e-6
    pad_token_id: int = 1
    projection_size: int | None = None


class SiglipVision(VisionSide, frozen=True, kw_only=True):
    """`vision_config`, likewise."""

    hidden_size: int = 768
    intermediate_size: int = 3072
    patch_size: int = 16
    hidden_act: Activation = "gelu_pytorch_tanh"
    layer_norm_eps: float = 1e-6
    num_channels: Literal[3] = 3
    vision_use_head: bool = True


class SiglipConfig(msgspec.Struct, frozen=True):
    """The keys of config.json that change what is computed."""

    model_type: Literal["siglip"]
    text_config: SiglipText
    vision_config: SiglipVision

    def __post_init__(self) -> None:
        if not self.vision_config.vision_use_head:
            raise ValueError("vision_use_head is off, so no vector of an image is said")
        if self.width != self.vision_config.hidden_size:
            raise ValueError(
                f"texts end with {self.width} numbers and images with "
                f"{self.vision_config.hidden_size}"
            )

    @property
    def width(self) -> int:
        return self.text_config.projection_size or self.text_config.hidden_size


class _Token(msgspec.Struct):
    content: str
    id: int = -1


class _Tokenizer(msgspec.Struct):
    added_tokens: list[_Token] = []


class _TokenizerConfig(msgspec.Struct):
    pad_token: str | _Token | None = None


def _takes(config: SiglipConfig) -> Takes:
    return config.vision_config.squares().takes()


def _fills(config: SiglipConfig, folder: Path) -> Filling:
    """The tokenizer knows better than the config, whose default is that of the first models."""
    token = config.text_config.pad_token_id
    files = folder / "tokenizer_config.json", folder / "tokenizer.json"
    if all(path.is_file() for path in files):
        pad = read_config(files[0], _TokenizerConfig).pad_token
        name = pad.content if isinstance(pad, _Token) else pad
        added = read_config(files[1], _Tokenizer).added_tokens
        token = next((known.id for known in added if known.content == name), token)
    return Filling(config.text_config.max_position_embeddings, token)


def _tensors(config: SiglipConfig) -> dict[str, Shape]:
    text, vision = config.text_config, config.vision_config
    hidden, inner = vision.hidden_size, vision.intermediate_size
    return {
        **text.tensors(),
        f"{TEXT}.head.weight": (config.width, text.hidden_size),
        f"{TEXT}.head.bias": (config.width,),
        **vision.tensors(),
        **vision.squares().tensors(),
        f"{_PROBE}.probe": (1, 1, hidden),
        f"{_PROBE}.attention.in_proj_weight": (3 * hidden, hidden),
        f"{_PROBE}.attention.in_proj_bias": (3 * hidden,),
        f"{_PROBE}.attention.out_proj.weight": (hidden, hidden),
        f"{_PROBE}.attention.out_proj.bias": (hidden,),
        f"{_PROBE}.layernorm.weight": (hidden,),
        f"{_PROBE}.layernorm.bias": (hidden,),
        f"{_PROBE}.mlp.fc1.weight": (inner, hidden),
        f"{_PROBE}.mlp.fc1.bias": (inner,),
        f"{_PROBE}.mlp.fc2.weight": (hidden, inner),
        f"{_PROBE}.mlp.fc2.bias": (hidden,),
    }


def _heads(_: SiglipConfig) -> Layout:
    return Layout(similarity=Similarity("logit_scale", "logit_bias"))


def _encoder(config: SiglipConfig, layers: Layers) -> TwoTowers:
    text, vision = _Text(config.text_config, layers), _Vision(config.vision_config, layers)
    room = max(text.bytes_per_token, vision.bytes_per_token)
    return TwoTowers(config.text_config, config.width, room, text, vision)


class _Text:
    def __init__(self, side: SiglipText, layers: Layers) -> None:
        self._tower = TextTower(side, layers, Attention())
        self._head = layers.linear(f"{TEXT}.head")
        self.bytes_per_token = self._tower.bytes_per_token

    def __call__(self, packed: Packed) -> Tensor:
        return self._head(self._tower(packed)[packed.offsets[1:] - 1])


class SiglipTower:
    """The squares of images up to the last norm: -> [images * squares, hidden].

    family: whose processor says how images come. row_bytes: of a square in between its blocks.
    """

    def __init__(self, side: SiglipVision, layers: Layers, family: str) -> None:
        squares = side.squares()
        self.rows = squares.rows
        self._patches = Patches(squares, layers, family)
        self._blocks = Blocks(VISION, side, layers, Attention())
        self._norm = layers.layer_norm(f"{VISION}.post_layernorm", side.layer_norm_eps)
        self.bytes_per_token = self._blocks.bytes_per_token
        self.row_bytes = self._blocks.row_bytes
        self.stages = 2 * len(self._blocks) + 1

    def __call__(self, packed: Packed, images: Tensor) -> Tensor:
        return self._norm(self._blocks(self._patches(images), packed))

    def in_stages(self, images: Tensor) -> Iterator[Tensor]:
        """Rows after each of the `stages`: at last those that it is called for."""
        packed, rows = laid_out(images, self.rows), self._patches(images)
        for after in self._blocks.stages(rows, packed):
            rows = after
            yield rows
        yield self._norm(rows)


class _Vision:
    def __init__(self, side: SiglipVision, layers: Layers) -> None:
        self._tower = SiglipTower(side, layers, "siglip")
        self._probe = _Probe(side, layers)
        self.bytes_per_token = self._tower.bytes_per_token

    def __call__(self, packed: Packed, images: Tensor) -> Tensor:
        hidden = self._tower(packed, images)
        return self._probe(hidden.view(len(images), -1, hidden.shape[1]))


class _Probe:
    """One learnt query over all squares of an image: [items, squares, hidden] -> [items, hidden]."""

    def __init__(self, side: SiglipVision, layers: Layers) -> None:
        hidden = side.hidden_size
        query, key_value = layers.split(
            f"{_PROBE}.attention.in_proj_weight", f"{_PROBE}.attention.in_proj_bias", hidden
        )
        # The probe is the same for every image, and so is what it asks.
        asked = query(layers.tensor(f"{_PROBE}.probe").view(1, hidden))
        self._query = asked.view(1, 1, side.num_attention_heads, -1).transpose(1, 2)
        self._key_value = key_value
        self._out = layers.linear(f"{_PROBE}.attention.out_proj")
        self._norm = layers.layer_norm(f"{_PROBE}.layernorm", side.layer_norm_eps)
        self._up = layers.linear(f"{_PROBE}.mlp.fc1", activation=side.hidden_act)
        self._down = layers.linear(f"{_PROBE}.mlp.fc2")

    def __call__(self, hidden: Tensor) -> Tensor:
        items, squares, width = hidden.shape
        heads = self._query.shape[1]
        both = self._key_value(hidden.flatten(0, 1)).view(items, squares, 2, heads, -1)
        key, value = both.permute(2, 0, 3, 1, 4)
        query = self._query.expand(items, -1, -1, -1)
        seen = scaled_dot_product_attention(query, key, value).reshape(items, width)
        rows = self._out(seen)
        return self._down.add(self._up(self._norm(rows)), rows)


SIGLIP = Family(
    SiglipConfig, rename, _tensors, _encoder, _heads, takes=_takes, pools=True, fills=_fills
)
