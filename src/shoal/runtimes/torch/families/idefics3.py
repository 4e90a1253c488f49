"""Idefics 3 (Laurençon et al., 2024) and SmolVLM (Marafioti et al., 2025): Llama, which reads images too.

Serves `Idefics3ForConditionalGeneration` and `SmolVLMForConditionalGeneration`: SigLIP's tower sees an
image, or the squares that it was cut into and the whole, one by one; neighbours become one row each, in the
place of a token. Reference: `transformers.models.idefics3.modeling_idefics3`, of which
`transformers.models.smolvlm.modeling_smolvlm` is a copy.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from shoal.runtimes.torch.families.base import Family
from shoal.runtimes.torch.families.decoder import GENERATOR, WORDS, rename
from shoal.runtimes.torch.families.llama import LlamaConfig
from shoal.runtimes.torch.families.rotary import RotaryEncoder
from shoal.runtimes.torch.families.shuffle import Shuffle
from shoal.runtimes.torch.families.siglip import SiglipVision
from shoal.runtimes.torch.heads.layout import Layout
from shoal.runtimes.torch.layers import Layers
from shoal.runtimes.torch.media import Takes
from shoal.runtimes.torch.weights import Shape

_CONNECTOR = "connector.modality_projection.proj"


class Idefics3Text(LlamaConfig, frozen=True, kw_only=True):
    """`text_config`, with the reference's defaults: configs leave those out."""

    vocab_size: int = 32_000
    hidden_size: int = 4096
    intermediate_size: int = 11_008
    num_hidden_layers: int = 32
    num_attention_heads: int = 32
    max_position_embeddings: int = 2048


class Idefics3Vision(SiglipVision, frozen=True, kw_only=True):
    """`vision_config`, likewise."""

    hidden_size: int = 1152
    num_attention_heads: int = 16
    image_size: int = 224
    patch_size: int = 32


class Idefics3Config(msgspec.Struct, frozen=True):
    """The keys of config.json that change what is computed.

    Attributes:
        image_token_id: the token that stands for a part of an image.
        scale_factor: so many squares a side become one row.
    """

    model_type: Literal["idefics3", "smolvlm"]
    text_config: Idefics3Text
    vision_config: Idefics3Vision
    image_token_id: int = 128_257
    scale_factor: int = 2
    tie_word_embeddings: bool = False

    def __post_init__(self) -> None:
        self.shuffle.check()

    @property
    def shuffle(self) -> Shuffle:
        """How images become tokens."""
        return Shuffle(self, self.scale_factor, _CONNECTOR)


def _rename(stored: str) -> str | None:
    name = rename(stored)
    return None if name is None else name.removeprefix("text_model.")


def _takes(config: Idefics3Config) -> Takes:
    return config.shuffle.takes()


def _tensors(config: Idefics3Config) -> dict[str, Shape]:
    return {**config.text_config.design.tensors(), **config.shuffle.tensors()}


def _heads(config: Idefics3Config) -> Layout:
    tied = config.tie_word_embeddings
    return Layout(generator=WORDS if tied else GENERATOR, tied=tied)


def _encoder(config: Idefics3Config, layers: Layers) -> RotaryEncoder:
    return RotaryEncoder(config.text_config, layers, config.shuffle.pictures(layers, "idefics3"))


IDEFICS3 = Family(Idefics3Config, _rename, _tensors, _encoder, _heads, takes=_takes)
