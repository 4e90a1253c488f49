"""The transformer block: attention, then two products, each with a norm before it or after it.

Families say under which names a block keeps its parts. Reference: `CLIPEncoderLayer`, `ViTLayer`,
`WhisperEncoderLayer` of transformers compute the one, `BertLayer` and `DistilBertLayer` the other.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from torch import Tensor

from shoal.runtimes.torch.attention import Attention, attend
from shoal.runtimes.torch.layers import Layers
from shoal.runtimes.torch.linear import Activation
from shoal.runtimes.torch.packed import Packed
from shoal.runtimes.torch.weights import Shape

#: Queries, keys and values, [computed, 3 * hidden] -> what is attended to, [computed, hidden].
Attend = Callable[[Tensor], Tensor]


class Names(msgspec.Struct, frozen=True):
    """The parts of a block, below its own name."""

    attention_norm: str
    query: str
    key: str
    value: str
    out: str
    products_norm: str
    up: str
    down: str


#: As CLIP, SigLIP and, but for the norms and products, Whisper have them.
CLIP_NAMES = Names(
    attention_norm="layer_norm1",
    query="self_attn.q_proj",
    key="self_attn.k_proj",
    value="self_attn.v_proj",
    out="self_attn.out_proj",
    products_norm="layer_norm2",
    up="mlp.fc1",
    down="mlp.fc2",
)


class Block(msgspec.Struct, frozen=True):
    """One block of a stack of equal ones.

    Attributes:
        inner: width between the two last products.
        biased: of query, key and value, those with a bias.
    """

    names: Names
    hidden: int
    inner: int
    heads: int
    eps: float
    activation: Activation
    attention: Attention = Attention()
    biased: tuple[bool, bool, bool] = (True, True, True)

    def tensors(self, at: str) -> dict[str, Shape]:
        """Of the block of this name, by shape."""
        names, hidden, inner = self.names, self.hidden, self.inner
        query, key, value = self.biased
        shapes: dict[str, Shape] = {}
        for name, out, into, bias in (
            (names.query, hidden, hidden, query),
            (names.key, hidden, hidden, key),
            (names.value, hidden, hidden, value),
            (names.out, hidden, hidden, True),
            (names.up, inner, hidden, True),
            (names.down, hidden, inner, True),
        ):
            shapes[f"{at}.{name}.weight"] = (out, into)
            if bias:
                shapes[f"{at}.{name}.bias"] = (out,)
        for name in (names.attention_norm, names.products_norm):
            shapes[f"{at}.{name}.weight"] = shapes[f"{at}.{name}.bias"] = (hidden,)
        return shapes

    def bytes_per_token(self, layers: Layers) -> int:
        """Peak of what one row needs: itself and its norm, and what is attended or in between."""
        stream = 2 * self.hidden * layers.stream_dtype.itemsize
        return stream + (self.hidden + max(3 * self.hidden, self.inner)) * layers.dtype.itemsize


class _Loaded:
    """The parts of a block."""

    def __init__(self, block: Block, at: str, layers: Layers) -> None:
        names = block.names
        three = [f"{at}.{name}" for name in (names.query, names.key, names.value)]
        self._block = block
        self._attention_norm = layers.layer_norm(f"{at}.{names.attention_norm}", block.eps)
        self._qkv = layers.product(
            [f"{name}.weight" for name in three],
            [
                f"{name}.bias" if bias else None
                for name, bias in zip(three, block.biased, strict=True)
            ],
        )
        self._out = layers.linear(f"{at}.{names.out}")
        self._products_norm = layers.layer_norm(f"{at}.{names.products_norm}", block.eps)
        self._up = layers.linear(f"{at}.{names.up}", activation=block.activation)
        self._down = layers.linear(f"{at}.{names.down}")


class PreNorm(_Loaded):
    """A loaded block that normalises what its parts take: [computed, hidden] -> the same."""

    def __call__(self, hidden: Tensor, packed: Packed) -> Tensor:
        return self.processed(self.attended_apart(hidden, packed))

    def attended_apart(self, hidden: Tensor, packed: Packed) -> Tensor:
        """The first half, where every item attends to itself alone."""
        block = self._block
        return self.attended(hidden, lambda qkv: attend(qkv, packed, block.heads, block.attention))

    def attended(self, hidden: Tensor, how: Attend) -> Tensor:
        """The first half: rows and what they attend to."""
        return self._out.add(how(self._qkv(self._attention_norm(hidden))), hidden)

    def processed(self, hidden: Tensor) -> Tensor:
        """The second half: each row by itself."""
        return self._down.add(self._up(self._products_norm(hidden)), hidden)


class PostNorm(_Loaded):
    """A loaded block that normalises the sums: [computed, hidden] -> the same."""

    def __call__(self, hidden: Tensor, packed: Packed) -> Tensor:
        block = self._block
        attended = attend(self._qkv(hidden), packed, block.heads, block.attention)
        hidden = self._attention_norm(self._out.add(attended, hidden))
        return self._products_norm(self._down.add(self._up(hidden), hidden))
