"""What a family is: the one file that knows how an architecture computes.

A family reads its own config, says which tensors it needs, turns packed tokens into packed hidden
states, and tells where the tensors of its heads lie. It computes no head and knows nothing of
batches or messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import msgspec
from torch import Tensor

from shoal.runtimes.torch.attention import Attention
from shoal.runtimes.torch.heads.layout import Layout
from shoal.runtimes.torch.layers import Layers
from shoal.runtimes.torch.media import Takes
from shoal.runtimes.torch.packed import Filling, Packed
from shoal.runtimes.torch.weights import Shape

Config = TypeVar("Config", bound=msgspec.Struct)


class Encoder(Protocol):
    """A loaded encoder.

    Attributes:
        vocabulary: token ids run from 0 to here, exclusive.
        max_tokens: the longest item that its positions allow.
        width: of a hidden state.
        activation_bytes_per_token: peak of what one token of a pass needs.
    """

    vocabulary: int
    max_tokens: int
    width: int
    activation_bytes_per_token: int

    def forward(self, packed: Packed) -> Tensor:
        """Hidden states after the last layer, [computed, width]; or, where its family `pools`, one
        row an item."""


#: Queries [rows, heads, width], keys and values [rows, key heads, width] of a layer -> what the rows
#: attend to, [rows, heads * width].
Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


class Seer(Protocol):
    """What looks at images that stand among tokens.

    Attributes:
        squares: rows of an image while it is looked at.
        bytes_per_token: peak of what one of these rows needs.
        stages: of a look, which take about as long as each other.
        row_bytes: what a row needs in between them.
    """

    squares: int
    bytes_per_token: int
    stages: int
    row_bytes: int

    def look(self, images: Tensor) -> Iterator[Tensor]:
        """uint8 [images, height, width, 3] -> what there is after each of the `stages`, at last
        rows in place of the images' tokens, [images * tokens, width]."""

    def __call__(self, rows: Tensor, packed: Packed) -> Tensor:
        """Embedded tokens of a pass -> the same, and rows of its images in their places."""


class Shown(NamedTuple):
    """Rows of images, [n, width], and where in a pass they stand, int64 [n]."""

    where: Tensor
    rows: Tensor


class Kept(msgspec.Struct, frozen=True):
    """What one layer keeps of a token, for those that come after it."""

    key_heads: int
    width: int
    attention: Attention


@runtime_checkable
class Decoder(Encoder, Protocol):
    """A loaded encoder that can carry on, if all of its attention is causal.

    Attributes:
        kept: by layer.
        words: the table of its words, [vocabulary, width].
        seer: of one that reads images among tokens.
    """

    kept: list[Kept]
    words: Tensor
    seer: Seer | None

    def carry_on(
        self,
        tokens: Tensor,
        positions: Tensor,
        attends: Sequence[Attend],
        shown: Shown | None = None,
    ) -> Tensor:
        """Hidden states after the last layer, [rows, width], of more tokens of any sequences.

        tokens, positions: int64 [rows]. attends: of each layer. shown: what stands in place of tokens.
        """


#: Queries [rows, heads, width] of a layer -> what the rows attend to of what was read, [rows, heads * width].
Look = Callable[[Tensor], Tensor]


@runtime_checkable
class Writer(Protocol):
    """The decoder of a model that reads prompts and writes texts apart from them.

    Attributes:
        encoder: what reads.
        begin: the token that each text begins with, which is told to nobody.
        vocabulary, activation_bytes_per_token: of both.
        kept: by layer, of a token that was read and of one that was written alike.
        looking: how tokens of a text attend to what was read.
        words: see `Decoder`.
    """

    encoder: Encoder
    begin: int
    vocabulary: int
    activation_bytes_per_token: int
    kept: list[Kept]
    looking: Attention
    words: Tensor

    def read(self, hidden: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Keys and values of each layer, [rows, key heads, width], of the encoder's rows."""

    def write(self, tokens: Tensor, attends: Sequence[Attend], looks: Sequence[Look]) -> Tensor:
        """Hidden states after the last layer, [rows, width], of more tokens of any texts.

        tokens: int64 [rows]. attends, looks: of each layer.
        """


@runtime_checkable
class Reader(Encoder, Protocol):
    """A loaded encoder that has a decoder beside it."""

    def writer(self, layers: Layers) -> Writer:
        """Reads the decoder's tensors. Raises `ModelLoadFailed` for those that are not there."""


class Family(msgspec.Struct, Generic[Config], frozen=True):
    """One architecture.

    Attributes:
        config: the keys of config.json that change what is computed.
        rename: a tensor's name in the files -> its name here, without the prefix under which a
            head's class stores the encoder; None for what nothing is computed with.
        tensors: the encoder's, all of them, by shape.
        encoder: builds it.
        heads: where the tensors of its heads lie.
        takes: the images or sound that it takes; None: tokens alone.
        pools: its encoder gives one row an item, [items, width].
        fills: how it fills up items of tokens, by its config and folder; None: not at all.
        float16: whether what it computes stays in the range of float16.
    """

    config: type[Config]
    rename: Callable[[str], str | None]
    tensors: Callable[[Config], dict[str, Shape]]
    encoder: Callable[[Config, Layers], Encoder]
    heads: Callable[[Config], Layout]
    takes: Callable[[Config], Takes] | None = None
    pools: bool = False
    fills: Callable[[Config, Path], Filling] | None = None
    float16: bool = True


def check_heads(config: msgspec.Struct, width: str, heads: str) -> None:
    """Raises `ValueError` naming both keys if attention's heads do not share the width evenly."""
    wide, many = getattr(config, width), getattr(config, heads)
    if many < 1 or wide % many:
        raise ValueError(f"{width} {wide} is no multiple of {heads} {many}")


def check_layers(config: msgspec.Struct, key: str, layers: str) -> None:
    """Raises `ValueError` naming both keys if a list says something of fewer or more layers."""
    listed, many = getattr(config, key), getattr(config, layers)
    if listed is not None and len(listed) != many:
        raise ValueError(f"{key} names {len(listed)} layers, {layers} says {many}")
