"""EfficientNet (Tan and Le, 2019) and its Lite variants: convolutions that widen, look, and narrow.

Serves `EfficientNetModel` and `EfficientNetForImageClassification` of transformers; and, by their
own names, checkpoints of EfficientNet-PyTorch (``_conv_stem``, ``_blocks``). A Lite has
``hidden_act: relu6`` and ``squeeze_expansion_ratio: 0``. Reference:
`transformers.models.efficientnet.modeling_efficientnet`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Literal

import msgspec
import torch
from torch import Tensor
from torch.nn.functional import conv2d, pad, relu6, silu

from shoal.runtimes.torch.families.base import Family
from shoal.runtimes.torch.heads.layout import Classifier, Layout, Linear
from shoal.runtimes.torch.layers import Layers
from shoal.runtimes.torch.media import Takes
from shoal.runtimes.torch.packed import Packed
from shoal.runtimes.torch.patches import Normalise, processing_for
from shoal.runtimes.torch.weights import Shape

#: Images of a pass at most: the first maps are large, 10 MB an image of 224 pixels a side.
_TOGETHER = 8

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "swish": lambda maps: silu(maps, inplace=True),
    "relu6": lambda maps: relu6(maps, inplace=True),
}

#: What EfficientNet-PyTorch calls the parts, outside of blocks and in one.
_OUTSIDE = {
    "_conv_stem": "embeddings.convolution",
    "_bn0": "embeddings.batchnorm",
    "_conv_head": "encoder.top_conv",
    "_bn1": "encoder.top_bn",
    "_fc": "classifier",
}
_INSIDE = {
    "_expand_conv": "expansion.expand_conv",
    "_bn0": "expansion.expand_bn",
    "_depthwise_conv": "depthwise_conv.depthwise_conv",
    "_bn1": "depthwise_conv.depthwise_norm",
    "_se_reduce": "squeeze_excite.reduce",
    "_se_expand": "squeeze_excite.expand",
    "_project_conv": "projection.project_conv",
    "_bn2": "projection.project_bn",
}
_IN_BLOCK = re.compile(r"_blocks\.(\d+)\.(\w+)\.(\w+)")


class EfficientNetConfig(msgspec.Struct, frozen=True):
    """The keys of config.json that change what is computed."""

    model_type: Literal["efficientnet"]
    image_size: int
    width_coefficient: float
    depth_coefficient: float
    kernel_sizes: list[int]
    in_channels: list[int]
    out_channels: list[int]
    strides: list[int]
    num_block_repeats: list[int]
    expand_ratios: list[int]
    depthwise_padding: list[int] = []
    depth_divisor: int = 8
    squeeze_expansion_ratio: float = 0.25
    hidden_act: Literal["swish", "relu6"] = "swish"
    hidden_dim: int = 1280
    pooling_type: Literal["mean"] = "mean"
    num_channels: Literal[3] = 3
    batch_norm_eps: float = 0.001

    def channels(self, count: int) -> int:
        """A number of channels as wide as this network has it."""
        wanted, step = count * self.width_coefficient, self.depth_divisor
        wide = max(step, int(wanted + step / 2) // step * step)
        return wide + step if wide < 0.9 * wanted else wide

    def blocks(self) -> list[Stage]:
        """All blocks, first to last."""
        found: list[Stage] = []
        for kernel, into, out, stride, repeats, widening in zip(
            self.kernel_sizes,
            map(self.channels, self.in_channels),
            map(self.channels, self.out_channels),
            self.strides,
            self.num_block_repeats,
            self.expand_ratios,
            strict=True,
        ):
            for number in range(math.ceil(self.depth_coefficient * repeats)):
                first = number == 0
                even = len(found) not in self.depthwise_padding
                stage = Stage(
                    kernel,
                    into if first else out,
                    out,
                    stride if first else 1,
                    widening,
                    even,
                    first,
                )
                found.append(stage)
        return found


class Stage(msgspec.Struct, frozen=True):
    """One block.

    Attributes:
        into, out: channels. widening: by how much they grow in between.
        even: whether the maps that a stride of 2 halves have an even size.
        begins: whether it is the first of its width.
    """

    kernel: int
    into: int
    out: int
    stride: int
    widening: int
    even: bool
    begins: bool

    @property
    def wide(self) -> int:
        return self.into * self.widening

    @property
    def padding(self) -> tuple[int, int]:
        """Before and after, on both axes: as TensorFlow's SAME has it."""
        half = self.kernel // 2
        return (half - 1 if self.stride == 2 and self.even else half), half

    def size_after(self, size: int) -> int:
        return (size + sum(self.padding) - self.kernel) // self.stride + 1

    def squeezed(self, ratio: float) -> int:
        """Channels in between when each is weighed; 0: they are not."""
        return max(1, int(self.into * ratio)) if ratio else 0


def _rename(stored: str) -> str | None:
    if stored.endswith(".num_batches_tracked"):
        return None
    if (block := _IN_BLOCK.fullmatch(stored)) is not None:
        number, part, what = block.groups()
        return f"encoder.blocks.{number}.{_INSIDE.get(part, part)}.{what}"
    part, _, what = stored.removeprefix("efficientnet.").rpartition(".")
    return f"{_OUTSIDE.get(part, part)}.{what}"


def _takes(config: EfficientNetConfig) -> Takes:
    side = config.image_size
    rows = _sizes(config)[-1] ** 2
    return Takes("images", "uint8", (side, side, 3), rows, most=_TOGETHER)


def _sizes(config: EfficientNetConfig) -> list[int]:
    """Of the maps after the stem and after each block."""
    sizes = [config.image_size // 2]
    for block in config.blocks():
        sizes.append(block.size_after(sizes[-1]))
    return sizes


def _tensors(config: EfficientNetConfig) -> dict[str, Shape]:
    stem, blocks = config.channels(32), config.blocks()
    shapes = _normed("embeddings.convolution", "embeddings.batchnorm", (stem, 3, 3, 3))
    for number, block in enumerate(blocks):
        at, wide, kernel = f"encoder.blocks.{number}", block.wide, block.kernel
        if block.widening > 1:
            name = f"{at}.expansion.expand"
            shapes |= _normed(f"{name}_conv", f"{name}_bn", (wide, block.into, 1, 1))
        name = f"{at}.depthwise_conv.depthwise"
        shapes |= _normed(f"{name}_conv", f"{name}_norm", (wide, 1, kernel, kernel))
        name = f"{at}.projection.project"
        shapes |= _normed(f"{name}_conv", f"{name}_bn", (block.out, wide, 1, 1))
        if few := block.squeezed(config.squeeze_expansion_ratio):
            name = f"{at}.squeeze_excite"
            shapes |= {
                f"{name}.reduce.weight": (few, wide, 1, 1),
                f"{name}.reduce.bias": (few,),
                f"{name}.expand.weight": (wide, few, 1, 1),
                f"{name}.expand.bias": (wide,),
            }
    last = (config.hidden_dim, blocks[-1].out, 1, 1)
    return shapes | _normed("encoder.top_conv", "encoder.top_bn", last)


def _normed(convolution: str, norm: str, shape: Shape) -> dict[str, Shape]:
    shapes = {f"{convolution}.weight": shape}
    for part in ("weight", "bias", "running_mean", "running_var"):
        shapes[f"{norm}.{part}"] = shape[:1]
    return shapes


def _heads(_: EfficientNetConfig) -> Layout:
    return Layout(sequence=Classifier((Linear("classifier"),), pooling="mean"))


class EfficientNet:
    """The encoder; see `Encoder` for its attributes. A token is a place of the last map."""

    def __init__(self, config: EfficientNetConfig, layers: Layers) -> None:
        blocks, sizes = config.blocks(), _sizes(config)
        self.vocabulary = 0
        self.max_tokens = sizes[-1] ** 2
        self.width = config.hidden_dim
        # Two maps of the widest block, before it is narrowed.
        widest = max(b.wide * size**2 for b, size in zip(blocks, sizes, strict=False))
        self.activation_bytes_per_token = 2 * widest * layers.dtype.itemsize // self.max_tokens
        processing = processing_for("efficientnet", config.image_size, layers)
        self._normalise = Normalise(processing, layers.device)
        self._activation = _ACTIVATIONS[config.hidden_act]
        eps = config.batch_norm_eps
        self._stem = layers.convolution("embeddings.convolution", "embeddings.batchnorm", eps)
        self._blocks = [
            _Block(block, f"encoder.blocks.{number}", config, layers)
            for number, block in enumerate(blocks)
        ]
        self._top = layers.convolution("encoder.top_conv", "encoder.top_bn", eps)

    def forward(self, packed: Packed) -> Tensor:
        """The last map, [computed, hidden], an image's places row by row."""
        assert packed.media is not None, "no item of tokens comes here"
        # Channels lie last in the images as they come, and that is how convolutions are fastest.
        maps = self._normalise(packed.media).permute(0, 3, 1, 2).to(self._stem[0].dtype)
        maps = self._activation(conv2d(pad(maps, (0, 1, 0, 1)), *self._stem, stride=2))
        for block in self._blocks:
            maps = block(maps)
        maps = self._activation(conv2d(maps, *self._top))
        return maps.flatten(2).transpose(1, 2).flatten(0, 1)


class _Block:
    def __init__(self, stage: Stage, at: str, config: EfficientNetConfig, layers: Layers) -> None:
        eps = config.batch_norm_eps
        self._stage = stage
        self._activation = _ACTIVATIONS[config.hidden_act]
        name = f"{at}.expansion.expand"
        self._widen = (
            layers.convolution(f"{name}_conv", f"{name}_bn", eps) if stage.widening > 1 else None
        )
        name = f"{at}.depthwise_conv.depthwise"
        self._look = layers.convolution(f"{name}_conv", f"{name}_norm", eps)
        name = f"{at}.projection.project"
        self._narrow = layers.convolution(f"{name}_conv", f"{name}_bn", eps)
        self._weigh: tuple[Tensor, ...] = ()
        if stage.squeezed(config.squeeze_expansion_ratio):
            parts = [
                f"{part}.{what}" for part in ("reduce", "expand") for what in ("weight", "bias")
            ]
            self._weigh = tuple(layers.factor(f"{at}.squeeze_excite.{part}") for part in parts)
        # A block that neither halves nor begins a width adds what came in.
        self._adds = stage.stride == 1 and not stage.begins

    def __call__(self, maps: Tensor) -> Tensor:
        before = maps
        if self._widen is not None:
            maps = self._activation(conv2d(maps, *self._widen))
        start, end = self._stage.padding
        maps = pad(maps, (start, end, start, end))
        look = conv2d(maps, *self._look, stride=self._stage.stride, groups=maps.shape[1])
        maps = self._activation(look)
        if self._weigh:
            reduce, reduce_bias, expand, expand_bias = self._weigh
            few = self._activation(conv2d(maps.mean((2, 3), keepdim=True), reduce, reduce_bias))
            maps = maps * torch.sigmoid(conv2d(few, expand, expand_bias))
        maps = conv2d(maps, *self._narrow)
        return maps.add_(before) if self._adds else maps


EFFICIENTNET = Family(EfficientNetConfig, _rename, _tensors, EfficientNet, _heads, takes=_takes)
