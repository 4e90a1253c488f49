"""ColModernVBERT (Teiletche et al., 2025): ColPali's way, small enough for a CPU.

Serves `ColModernVBertForRetrieval`: SigLIP's tower sees the squares of a page one by one, neighbours
become one row, and ModernBERT reads them in their places. Reference:
`transformers.models.modernvbert.modeling_modernvbert`.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from shoal.runtimes.torch.families.base import Family
from shoal.runtimes.torch.families.modernbert import ModernBertConfig
from shoal.runtimes.torch.families.rotary import RotaryEncoder
from shoal.runtimes.torch.families.shuffle import Shuffle
from shoal.runtimes.torch.families.siglip import SiglipVision
from shoal.runtimes.torch.heads.layout import Layout
from shoal.runtimes.torch.layers import Layers
from shoal.runtimes.torch.media import Takes
from shoal.runtimes.torch.weights import Shape

_CONNECTOR = "connector.modality_projection"
#: What fills masks, and what pools an image: of those nothing is asked.
_UNUSED = ("lm_head.", "projection_head.", "vision_model.head.")


class ModernVBert(msgspec.Struct, frozen=True):
    """`vlm_config`.

    Attributes:
        image_token_id: the token that stands for a part of an image.
        pixel_shuffle_factor: so many squares a side become one row.
    """

    model_type: Literal["modernvbert"]
    text_config: ModernBertConfig
    vision_config: SiglipVision
    image_token_id: int = 50407
    pixel_shuffle_factor: int = 4

    def __post_init__(self) -> None:
        self.shuffle.check()

    @property
    def shuffle(self) -> Shuffle:
        """How images become tokens."""
        return Shuffle(self, self.pixel_shuffle_factor, _CONNECTOR)


class ColModernVBertConfig(msgspec.Struct, frozen=True):
    """The keys of config.json that change what is computed."""

    model_type: Literal["colmodernvbert"]
    vlm_config: ModernVBert


def _rename(stored: str) -> str | None:
    name = stored.removeprefix("vlm.").removeprefix("model.").removeprefix("text_model.")
    return None if name.startswith(_UNUSED) else name


def _takes(config: ColModernVBertConfig) -> Takes:
    return config.vlm_config.shuffle.takes()


def _tensors(config: ColModernVBertConfig) -> dict[str, Shape]:
    vlm = config.vlm_config
    return {**vlm.text_config.design.tensors(), **vlm.shuffle.tensors()}


def _heads(_: ColModernVBertConfig) -> Layout:
    return Layout()


def _encoder(config: ColModernVBertConfig, layers: Layers) -> RotaryEncoder:
    vlm = config.vlm_config
    return RotaryEncoder(vlm.text_config, layers, vlm.shuffle.pictures(layers, "colmodernvbert"))


COLMODERNVBERT = Family(ColModernVBertConfig, _rename, _tensors, _encoder, _heads, takes=_takes)
