"""What a family with rotary positions says of itself, as data: sizes, names of tensors, norms.

From it follow the tensors that a checkpoint must hold; `rotary` builds and computes it.
"""

from __future__ import annotations

from typing import Literal

import msgspec
import torch

from shoal.runtimes.torch.attention import Attention
from shoal.runtimes.torch.families.base import Kept
from shoal.runtimes.torch.layers import Layers, Norm
from shoal.runtimes.torch.linear import Activation, Linear
from shoal.runtimes.torch.rope import Frequencies
from shoal.runtimes.torch.weights import Shape


class Product(msgspec.Struct, frozen=True):
    """A matrix product that takes rows of width `into`.

    `parts`: the tensors it is stored as, one below the other, and how many rows each has.
    """

    into: int
    parts: dict[str, int]
    bias: bool = False

    @property
    def out(self) -> int:
        """Width of what it gives."""
        return sum(self.parts.values())

    def tensors(self, at: str) -> dict[str, Shape]:
        """Names and shapes of its tensors, below `at`."""
        shapes: dict[str, Shape] = {}
        for name, rows in self.parts.items():
            shapes[f"{at}{name}.weight"] = (rows, self.into)
            if self.bias:
                shapes[f"{at}{name}.bias"] = (rows,)
        return shapes

    def build(self, at: str, layers: Layers) -> Linear:
        """The product."""
        return layers.linear(*(f"{at}{name}" for name in self.parts), bias=self.bias)


class Scale(msgspec.Struct, frozen=True):
    """A norm: layer norm with or without a bias, or root mean square.

    `shifted`: root mean square whose weights count from 1, as Gemma stores them.
    """

    name: str
    width: int
    eps: float
    kind: Literal["layer", "unbiased", "rms", "shifted"]

    def tensors(self, at: str) -> dict[str, Shape]:
        """Names and shapes of its tensors, below `at`."""
        shapes: dict[str, Shape] = {f"{at}{self.name}.weight": (self.width,)}
        return shapes | ({f"{at}{self.name}.bias": (self.width,)} if self.kind == "layer" else {})

    def build(self, at: str, layers: Layers) -> Norm:
        """The norm."""
        if self.kind in ("layer", "unbiased"):
            return layers.layer_norm(f"{at}{self.name}", self.eps, bias=self.kind == "layer")
        return layers.rms_norm(f"{at}{self.name}", self.eps, 1.0 if self.kind == "shifted" else 0.0)


class Norms(msgspec.Struct, frozen=True):
    """The norms of a layer; None: it has none there.

    Attributes:
        before_attention, before_network: of what the two take.
        attended, computed: of what the two give, before it is added to what they took.
        after_attention, after_network: of that sum.
        query, key: of each head.
    """

    before_attention: Scale | None = None
    attended: Scale | None = None
    after_attention: Scale | None = None
    before_network: Scale | None = None
    computed: Scale | None = None
    after_network: Scale | None = None
    query: Scale | None = None
    key: Scale | None = None

    def there(self) -> list[Scale]:
        """Those that there are."""
        norms = (getattr(self, role) for role in self.__struct_fields__)
        return [norm for norm in norms if norm is not None]


class Plan(msgspec.Struct, frozen=True):
    """One layer.

    Attributes:
        at: what the names of its tensors begin with.
        heads, key_heads, head_width: each of the key heads serves as many heads of the query.
        attention: how its tokens attend.
        turn: by which of the model's frequencies; None: positions count for nothing.
        qkv, out, inner, down: its products; `inner` gives both halves of the gated network.
        activation: of half `gate` of what `inner` gives; the other half is multiplied.
    """

    at: str
    heads: int
    key_heads: int
    head_width: int
    attention: Attention
    turn: str | None
    qkv: Product
    out: Product
    inner: Product
    down: Product
    activation: Activation
    gate: Literal[0, 1]
    norms: Norms

    @property
    def kept(self) -> Kept:
        """What it keeps of a token."""
        return Kept(self.key_heads, self.head_width, self.attention)

    def tensors(self) -> dict[str, Shape]:
        """Names and shapes of its tensors."""
        shapes: dict[str, Shape] = {}
        for product in (self.qkv, self.out, self.inner, self.down):
            shapes |= product.tensors(self.at)
        for norm in self.norms.there():
            shapes |= norm.tensors(self.at)
        return shapes

    def activation_bytes_per_token(self, layers: Layers) -> int:
        """Hidden, residual and normed rows; cosines and sines of two bases; what products give.

        Those are q/k/v, q/k turned in float32 and attended rows, or both halves of the network and
        the activated one.
        """
        stream = 3 * self.qkv.into * layers.stream_dtype.itemsize
        angles = 2 * 2 * self.head_width * torch.float32.itemsize
        turned = (self.heads + self.key_heads) * self.head_width * torch.float32.itemsize
        attention = (self.qkv.out + self.out.into) * layers.dtype.itemsize + 2 * turned
        network = (self.inner.out + self.down.into) * layers.dtype.itemsize
        return stream + angles + max(attention, network)


class Design(msgspec.Struct, frozen=True):
    """A model.

    Attributes:
        max_tokens: the longest item that its positions allow.
        words, types: names of the tables; None: tokens have no types.
        type_count: rows of the table of types.
        scale: what embedded tokens are multiplied with.
        frequencies: how layers turn, by the name that a plan says.
        first_norm, last_norm: of embedded tokens, and of what the last layer gives.
    """

    vocabulary: int
    width: int
    max_tokens: int
    words: str
    layers: list[Plan]
    frequencies: dict[str, Frequencies]
    first_norm: Scale | None = None
    last_norm: Scale | None = None
    types: str | None = None
    type_count: int = 0
    scale: float = 1.0

    def tensors(self) -> dict[str, Shape]:
        """Names and shapes of its tensors."""
        shapes: dict[str, Shape] = {self.words: (self.vocabulary, self.width)}
        if self.types is not None:
            shapes[self.types] = (self.type_count, self.width)
        for norm in (self.first_norm, self.last_norm):
            shapes |= norm.tensors("") if norm else {}
        for plan in self.layers:
            shapes |= plan.tensors()
        return shapes
