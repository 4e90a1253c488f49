"""ColPali (Faysse et al., 2024): a vector for each square of a page, and for each token of a query.

Serves `ColPaliForRetrieval` on PaliGemma: SigLIP's tower sees a page, whose squares come before the
prompt of a Gemma in which all tokens see each other; head `colbert` projects what it says. Reference:
`transformers.models.colpali.modeling_colpali`, `transformers.models.paligemma.modeling_paligemma`.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from shoal.runtimes.torch.families.base import Family
from shoal.runtimes.torch.families.decoder import DecoderKeys, Traits
from shoal.runtimes.torch.families.pictures import Pictures, check_place
from shoal.runtimes.torch.families.plan import Design, Plan, Scale
from shoal.runtimes.torch.families.rotary import RotaryEncoder
from shoal.runtimes.torch.families.siglip import SiglipTower, SiglipVision
from shoal.runtimes.torch.heads.layout import Layout
from shoal.runtimes.torch.layers import Layers
from shoal.runtimes.torch.linear import Activation
from shoal.runtimes.torch.media import Takes
from shoal.runtimes.torch.weights import Shape

_PROJECTOR = "multi_modal_projector.linear"
#: Where the towers lie in the files of several eras -> where they are here, first match first.
_ERAS = {
    "vision_tower.vision_model.": "vision_model.",
    "vision_tower.": "vision_model.",
    "language_model.model.": "",
    "language_model.": "",
}
#: What says the next token, and what pools an image: of those nothing is asked.
_UNUSED = ("lm_head.", "vision_model.head.")


class GemmaText(DecoderKeys, frozen=True, kw_only=True):
    """`text_config`: Gemma's first, with the reference's defaults; it looks ahead here."""

    model_type: Literal["gemma"] = "gemma"
    max_position_embeddings: int = 8192
    head_dim: int | None = 256
    hidden_act: Activation = "gelu_pytorch_tanh"
    attention_bias: bool = False

    def traits(self, number: int) -> Traits:
        """All alike."""
        bias = self.attention_bias
        return Traits(qkv_bias=bias, out_bias=bias)

    @property
    def design(self) -> Design:
        """Embedded tokens are scaled, those of images are not."""
        return msgspec.structs.replace(super().design, scale=self.hidden_size**0.5)

    def _layer(self, number: int) -> Plan:
        plan = super()._layer(number)
        # Old files say gelu and mean its approximation, as the reference has it.
        legacy = plan.activation == "gelu"
        return msgspec.structs.replace(
            plan,
            activation="gelu_pytorch_tanh" if legacy else plan.activation,
            attention=msgspec.structs.replace(plan.attention, causal=False),
        )

    def _norm(self, name: str) -> Scale:
        return Scale(name, self.hidden_size, self.rms_norm_eps, "shifted")


class PaliGemma(msgspec.Struct, frozen=True):
    """`vlm_config`; `image_token_index`: the token that stands for a square of an image."""

    model_type: Literal["paligemma"]
    text_config: GemmaText
    vision_config: SiglipVision
    image_token_index: int = 256_000

    def __post_init__(self) -> None:
        check_place("image_token_index", self.image_token_index, self.text_config.vocab_size)


class ColPaliConfig(msgspec.Struct, frozen=True):
    """The keys of config.json that change what is computed."""

    model_type: Literal["colpali"]
    vlm_config: PaliGemma


def _rename(stored: str) -> str | None:
    name = stored.removeprefix("vlm.").removeprefix("model.")
    for era, here in _ERAS.items():
        if name.startswith(era):
            name = here + name.removeprefix(era)
            break
    return None if name.startswith(_UNUSED) else name


def _takes(config: ColPaliConfig) -> Takes:
    vlm = config.vlm_config
    takes = vlm.vision_config.squares().takes()
    return msgspec.structs.replace(takes, place=vlm.image_token_index)


def _tensors(config: ColPaliConfig) -> dict[str, Shape]:
    text, vision = config.vlm_config.text_config, config.vlm_config.vision_config
    return {
        **text.design.tensors(),
        **vision.tensors(),
        **vision.squares().tensors(),
        f"{_PROJECTOR}.weight": (text.hidden_size, vision.hidden_size),
        f"{_PROJECTOR}.bias": (text.hidden_size,),
    }


def _heads(_: ColPaliConfig) -> Layout:
    return Layout()


def _encoder(config: ColPaliConfig, layers: Layers) -> RotaryEncoder:
    vlm = config.vlm_config
    tower = SiglipTower(vlm.vision_config, layers, "colpali")
    pictures = Pictures(vlm.image_token_index, tower, layers.linear(_PROJECTOR))
    return RotaryEncoder(vlm.text_config, layers, pictures)


COLPALI = Family(ColPaliConfig, _rename, _tensors, _encoder, _heads, takes=_takes, float16=False)
