"""What CLIP and SigLIP share: a tower for texts and one for images, that end in one space.

A tower's own file says what comes before its blocks and after them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
import torch
from torch import Tensor

from shoal.runtimes.torch.attention import Attention
from shoal.runtimes.torch.blocks import CLIP_NAMES, Block, PreNorm
from shoal.runtimes.torch.layers import Layers
from shoal.runtimes.torch.linear import Activation
from shoal.runtimes.torch.packed import Packed
from shoal.runtimes.torch.patches import Squares
from shoal.runtimes.torch.weights import Shape

TEXT, VISION = "text_model", "vision_model"


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """The keys that change what is computed in either tower."""

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    hidden_act: Activation
    layer_norm_eps: float

    @property
    def block(self) -> Block:
        return Block(
            CLIP_NAMES,
            self.hidden_size,
            self.intermediate_size,
            self.num_attention_heads,
            self.layer_norm_eps,
            self.hidden_act,
        )


class TextSide(Side, frozen=True, kw_only=True):
    """The tower of texts."""

    vocab_size: int
    max_position_embeddings: int

    def tensors(self) -> dict[str, Shape]:
        at, hidden = TEXT, self.hidden_size
        return _blocks(at, self) | {
            f"{at}.embeddings.token_embedding.weight": (self.vocab_size, hidden),
            f"{at}.embeddings.position_embedding.weight": (self.max_position_embeddings, hidden),
            f"{at}.final_layer_norm.weight": (hidden,),
            f"{at}.final_layer_norm.bias": (hidden,),
        }


class VisionSide(Side, frozen=True, kw_only=True):
    """The tower of images."""

    image_size: int = 224
    patch_size: int

    def squares(self, *, first: str | None = None, bias: bool = True) -> Squares:
        """How images enter; `first`: below the embeddings, of the class token."""
        at = f"{VISION}.embeddings"
        return Squares(
            self.image_size,
            self.patch_size,
            self.hidden_size,
            f"{at}.patch_embedding",
            f"{at}.position_embedding.weight",
            first and f"{at}.{first}",
            bias,
        )

    def tensors(self) -> dict[str, Shape]:
        """But for those of its `squares`."""
        at, hidden = VISION, self.hidden_size
        return _blocks(at, self) | {
            f"{at}.post_layernorm.weight": (hidden,),
            f"{at}.post_layernorm.bias": (hidden,),
        }


def _blocks(at: str, side: Side) -> dict[str, Shape]:
    shapes: dict[str, Shape] = {}
    for number in range(side.num_hidden_layers):
        shapes |= side.block.tensors(f"{at}.encoder.layers.{number}")
    return shapes


def rename(stored: str) -> str | None:
    """As they are stored, but for positions that are counted and not learnt."""
    return None if stored.endswith(".embeddings.position_ids") else stored


class Blocks:
    """All blocks of a tower."""

    def __init__(self, at: str, side: Side, layers: Layers, attention: Attention) -> None:
        block = msgspec.structs.replace(side.block, attention=attention)
        self.bytes_per_token = block.bytes_per_token(layers)
        self.row_bytes = side.hidden_size * layers.stream_dtype.itemsize
        self._blocks = [
            PreNorm(block, f"{at}.encoder.layers.{number}", layers)
            for number in range(side.num_hidden_layers)
        ]

    def __len__(self) -> int:
        return len(self._blocks)

    def __call__(self, hidden: Tensor, packed: Packed) -> Tensor:
        for block in self._blocks:
            hidden = block(hidden, packed)
        return hidden

    def stages(self, hidden: Tensor, packed: Packed) -> Iterator[Tensor]:
        """Rows after each half of a block, two stages for each."""
        for block in self._blocks:
            hidden = block.attended_apart(hidden, packed)
            yield hidden
            hidden = block.processed(hidden)
            yield hidden


class TextTower:
    """Texts up to their last norm: -> [computed, hidden]."""

    def __init__(self, side: TextSide, layers: Layers, attention: Attention) -> None:
        self._words = layers.table(f"{TEXT}.embeddings.token_embedding.weight")
        self._positions = layers.tensor(f"{TEXT}.embeddings.position_embedding.weight")
        self._blocks = Blocks(TEXT, side, layers, attention)
        self._norm = layers.layer_norm(f"{TEXT}.final_layer_norm", side.layer_norm_eps)
        self.bytes_per_token = self._blocks.bytes_per_token

    def __call__(self, packed: Packed) -> Tensor:
        words = torch.embedding(self._words, packed.tokens)
        hidden = words + torch.embedding(self._positions, packed.positions)
        return self._norm(self._blocks(hidden, packed))


class TwoTowers:
    """The encoder of a family of two; see `Encoder` for its attributes.

    text, vision: the items of a pass, all of the one kind -> a row an item, [items, width].
    """

    def __init__(
        self,
        side: TextSide,
        width: int,
        bytes_per_token: int,
        text: Callable[[Packed], Tensor],
        vision: Callable[[Packed, Tensor], Tensor],
    ) -> None:
        self.vocabulary = side.vocab_size
        self.max_tokens = side.max_position_embeddings
        self.width = width
        self.activation_bytes_per_token = bytes_per_token
        self._text, self._vision = text, vision

    def forward(self, packed: Packed) -> Tensor:
        """A row an item, [items, width]."""
        if packed.media is None:
            return self._text(packed)
        return self._vision(packed, packed.media)
