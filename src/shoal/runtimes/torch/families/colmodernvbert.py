"""ColModernVBERT (Teiletche et al., 2025): ColPali's way, small enough for a CPU.

Serves `ColModernVBertForRetrieval`: SigLIP's tower sees the squares of a page one by one, neighbours
become one row, and ModernBERT reads them in their places. Reference:
`transformers.models.modernvbert.modeling_modernvbert`.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from torch import Tensor

from shoal.runtimes.torch.families.base import Family
from shoal.runtimes.torch.families.modernbert import ModernBertConfig
from shoal.runtimes.torch.families.pictures import Pictures, check_place
from shoal.runtimes.torch.families.rotary import RotaryEncoder
from shoal.runtimes.torch.families.siglip import SiglipTower, SiglipVision
from shoal.runtimes.torch.heads.layout import Layout
from shoal.runtimes.torch.layers import Layers
from shoal.runtimes.torch.linear import Linear
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
        vision, factor = self.vision_config, self.pixel_shuffle_factor
        side = vision.image_size // vision.patch_size
        if factor < 1 or side % factor:
            raise ValueError(f"an image is {side} squares a side, no multiple of {factor}")
        check_place("image_token_id", self.image_token_id, self.text_config.vocab_size)


class ColModernVBertConfig(msgspec.Struct, frozen=True):
    """The keys of config.json that change what is computed."""

    model_type: Literal["colmodernvbert"]
    vlm_config: ModernVBert


def _rename(stored: str) -> str | None:
    name = stored.removeprefix("vlm.").removeprefix("model.").removeprefix("text_model.")
    return None if name.startswith(_UNUSED) else name


def _takes(config: ColModernVBertConfig) -> Takes:
    vlm = config.vlm_config
    takes = vlm.vision_config.squares().takes()
    tokens = takes.tokens // vlm.pixel_shuffle_factor**2
    return msgspec.structs.replace(takes, tokens=tokens, place=vlm.image_token_id)


def _tensors(config: ColModernVBertConfig) -> dict[str, Shape]:
    vlm = config.vlm_config
    text, vision = vlm.text_config, vlm.vision_config
    joined = vision.hidden_size * vlm.pixel_shuffle_factor**2
    return {
        **text.design.tensors(),
        **vision.tensors(),
        **vision.squares().tensors(),
        f"{_CONNECTOR}.weight": (text.hidden_size, joined),
    }


def _heads(_: ColModernVBertConfig) -> Layout:
    return Layout()


def _encoder(config: ColModernVBertConfig, layers: Layers) -> RotaryEncoder:
    vlm = config.vlm_config
    vision = vlm.vision_config
    tower = SiglipTower(vision, layers, "colmodernvbert")
    side = vision.image_size // vision.patch_size
    connector = _Connector(side, vlm.pixel_shuffle_factor, layers.linear(_CONNECTOR, bias=False))
    return RotaryEncoder(vlm.text_config, layers, Pictures(vlm.image_token_id, tower, connector))


class _Connector:
    """[images * squares, hidden] -> [images * tokens, width]: neighbours side by side, projected."""

    def __init__(self, side: int, factor: int, project: Linear) -> None:
        self._side, self._factor, self._project = side, factor, project

    def __call__(self, rows: Tensor) -> Tensor:
        tokens, factor = self._side // self._factor, self._factor
        squares = rows.view(-1, tokens, factor, tokens, factor, rows.shape[1])
        joined = squares.transpose(2, 3).reshape(-1, factor * factor * rows.shape[1])
        return self._project(joined)


COLMODERNVBERT = Family(ColModernVBertConfig, _rename, _tensors, _encoder, _heads, takes=_takes)
