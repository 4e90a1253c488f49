"""Which angles a model turns its queries and keys by, as its config.json says.

Knows the keys that config files use and the published ways to stretch positions beyond those that
a model was trained on; computes frequencies only. Reference:
`transformers.modeling_rope_utils`, and for ``ntk`` the code of Alibaba-NLP/new-impl.
"""

from __future__ import annotations

import math
from typing import Literal

import msgspec
import torch
from torch import Tensor

Stretch = Literal["default", "linear", "dynamic", "llama3", "yarn", "ntk"]

#: How layers attend, where config.json says it of each.
Kind = Literal["full_attention", "sliding_attention"]

#: What a way of stretching cannot do without.
_NEEDED: dict[Stretch, tuple[str, ...]] = {
    "default": (),
    "linear": ("factor",),
    "dynamic": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor"),
    "yarn": ("factor",),
    "ntk": ("factor",),
}


class Rope(msgspec.Struct, frozen=True, kw_only=True):
    """One set of rotary positions: `rope_parameters`, or `rope_scaling` of older files.

    `type` is the older name of `rope_type`.
    """

    rope_type: Stretch | None = None
    type: Stretch | None = None
    rope_theta: float | None = None
    partial_rotary_factor: float | None = None
    factor: float | None = None
    original_max_position_embeddings: float | None = None
    low_freq_factor: float | None = None
    high_freq_factor: float | None = None
    attention_factor: float | None = None
    beta_fast: float | None = None
    beta_slow: float | None = None
    mscale: float | None = None
    mscale_all_dim: float | None = None
    truncate: bool = True
    mixed_b: float | None = None

    def __post_init__(self) -> None:
        missing = [key for key in _NEEDED[self.kind] if getattr(self, key) is None]
        if missing:
            raise ValueError(f"rope_type {self.kind!r} needs {' and '.join(missing)}")

    @property
    def kind(self) -> Stretch:
        return self.rope_type or self.type or "default"

    def over(self, theta: float, fraction: float = 1.0) -> Rope:
        """With these where it says none of its own; `fraction` of each head turns."""
        return msgspec.structs.replace(
            self,
            rope_theta=self.rope_theta or theta,
            partial_rotary_factor=self.partial_rotary_factor or fraction,
        )


class RopeKeys(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of config.json that say how positions turn, where all layers do alike."""

    rope_parameters: Rope | None = None
    rope_scaling: Rope | None = None
    rope_theta: float | None = None
    partial_rotary_factor: float | None = None

    def rope(self, theta: float) -> Rope:
        """All of it in one; `theta` where the file says none."""
        said = self.rope_scaling or self.rope_parameters or Rope()
        return said.over(self.rope_theta or theta, self.partial_rotary_factor or 1.0)


def by_kind(
    kinds: list[Kind], said: dict[Kind, Rope], thetas: dict[Kind, float]
) -> dict[str, Rope]:
    """How the layers of each kind turn, of those kinds that there are."""
    return {
        kind: said.get(kind, Rope()).over(theta) for kind, theta in thetas.items() if kind in kinds
    }


class Frequencies(msgspec.Struct, frozen=True):
    """Radians a position, and what cosines and sines are multiplied with.

    Attributes:
        plain: float32 [rotated width / 2].
        trained: items of more tokens turn slower, by how many they are; None: all turn alike.
    """

    plain: Tensor
    scale: float = 1.0
    base: float = 0.0
    factor: float = 1.0
    trained: int | None = None

    def of(self, tokens: int) -> Tensor:
        """Those of an item of so many tokens."""
        if self.trained is None or tokens <= self.trained:
            return self.plain
        width = 2 * len(self.plain)
        grown = self.factor * tokens / self.trained - (self.factor - 1)
        return _inverse(self.base * grown ** (width / (width - 2)), width)


def frequencies(rope: Rope, head_width: int, max_positions: int) -> Frequencies:
    """What `rope` means for heads of a width in a model of so many positions."""
    theta, factor = rope.rope_theta or 0.0, rope.factor or 1.0
    width = int(head_width * (rope.partial_rotary_factor or 1.0))
    if width < 2 or width % 2:
        raise ValueError(f"{width} dimensions of a head cannot turn in pairs")
    plain = _inverse(theta, width)
    match rope.kind:
        case "default":
            return Frequencies(plain)
        case "linear":
            return Frequencies(plain / factor)
        case "dynamic":
            return Frequencies(plain, base=theta, factor=factor, trained=max_positions)
        case "llama3":
            return Frequencies(_llama3(plain, rope, max_positions))
        case "yarn":
            return Frequencies(_yarn(rope, width, max_positions), _yarn_scale(rope))
        case "ntk":
            return Frequencies(_ntk(rope, width))


def _inverse(theta: float, width: int) -> Tensor:
    return 1.0 / theta ** (torch.arange(0, width, 2, dtype=torch.float32) / width)


def _llama3(plain: Tensor, rope: Rope, max_positions: int) -> Tensor:
    """Long waves stretched, short ones kept, those between blended (Llama 3.1)."""
    factor, low, high = (
        rope.factor or 1.0,
        rope.low_freq_factor or 1.0,
        rope.high_freq_factor or 1.0,
    )
    waves_in_trained = (rope.original_max_position_embeddings or max_positions) * plain / math.tau
    kept: Tensor = ((waves_in_trained - low) / (high - low)).clamp(0, 1)
    return (1 - kept) * plain / factor + kept * plain


def _yarn(rope: Rope, width: int, max_positions: int) -> Tensor:
    """YaRN (Peng et al., 2023): fast dimensions kept, slow ones stretched, a ramp between."""
    theta, trained = rope.rope_theta or 0.0, rope.original_max_position_embeddings or max_positions

    def dimension(turns: float) -> float:
        return width * math.log(trained / (turns * math.tau)) / (2 * math.log(theta))

    low, high = dimension(rope.beta_fast or 32), dimension(rope.beta_slow or 1)
    if rope.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, width - 1)
    if low == high:
        high += 0.001  # as the reference does: no division by 0
    stretched = ((torch.arange(width // 2, dtype=torch.float32) - low) / (high - low)).clamp(0, 1)
    plain = _inverse(theta, width)
    return plain / (rope.factor or 1.0) * stretched + plain * (1 - stretched)


def _yarn_scale(rope: Rope) -> float:
    def scale(by: float) -> float:
        factor = rope.factor or 1.0
        return 1.0 if factor <= 1 else 0.1 * by * math.log(factor) + 1.0

    if rope.attention_factor is not None:
        return rope.attention_factor
    if rope.mscale and rope.mscale_all_dim:
        return scale(rope.mscale) / scale(rope.mscale_all_dim)
    return scale(1)


def _ntk(rope: Rope, width: int) -> Tensor:
    """Fixed and mixed NTK scaling, https://kexue.fm/archives/9706: its (6), and (10) to (13)."""
    theta, factor = rope.rope_theta or 0.0, rope.factor or 1.0
    if rope.mixed_b is None:
        slower: float = factor ** (2 / width)
        return _inverse(theta * factor, width) / slower
    a = math.log(factor) / (width / 2) ** rope.mixed_b
    steps = torch.arange(1, width // 2 + 1, dtype=torch.float32)
    slowed: Tensor = (a * steps**rope.mixed_b).exp()
    return _inverse(theta, width) / slowed
