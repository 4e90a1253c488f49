"""What goes into the first layer: rows of tables, added and normalised.

The tensors are called alike in every family that stands near BERT; what differs is which tables
there are, and where positions start.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import torch
from torch import Tensor

from shoal.runtimes.torch.layers import Layers
from shoal.runtimes.torch.packed import Packed
from shoal.runtimes.torch.weights import Shape

#: A pass -> the row of the position table for each of its tokens, int64 [computed].
Place = Callable[[Packed], Tensor]

WORDS = "embeddings.word_embeddings.weight"
_POSITIONS = "embeddings.position_embeddings.weight"
_TYPES = "embeddings.token_type_embeddings.weight"
_NORM = "embeddings.LayerNorm"


class Widening(msgspec.Struct, frozen=True):
    """A product, with a bias, that makes hidden states of narrower rows."""

    name: str
    hidden: int


class Tables(msgspec.Struct, frozen=True):
    """The tables of one model.

    Attributes:
        words, positions, types: rows of each; 0: the model has none. Types come with positions.
        width: of a row.
        eps: of the norm.
        padding: the padding token where positions count as fairseq's do; None: from 0.
        segments: whether the second of two texts has a token type of its own.
        widening: what follows the norm where rows are narrower than hidden states.
    """

    words: int
    positions: int
    types: int
    width: int
    eps: float
    padding: int | None = None
    segments: bool = True
    widening: Widening | None = None

    @property
    def max_tokens(self) -> int:
        """The longest item that has a position for each token."""
        return self.positions if self.padding is None else self.positions - self.padding - 1

    def tensors(self) -> dict[str, Shape]:
        """Names and shapes of the tensors."""
        rows = {WORDS: self.words, _POSITIONS: self.positions, _TYPES: self.types}
        shapes: dict[str, Shape] = {
            name: (count, self.width) for name, count in rows.items() if count
        }
        shapes[f"{_NORM}.weight"] = shapes[f"{_NORM}.bias"] = (self.width,)
        if self.widening is not None:
            name, hidden = self.widening.name, self.widening.hidden
            shapes |= {f"{name}.weight": (hidden, self.width), f"{name}.bias": (hidden,)}
        return shapes


class Embeddings:
    """Tokens -> [computed, hidden] in the dtype of the residual stream."""

    def __init__(self, tables: Tables, layers: Layers) -> None:
        self._place = _from_zero if tables.padding is None else _after(tables.padding)
        self._words = layers.table(WORDS)
        self._positions = layers.tensor(_POSITIONS) if tables.positions else None
        self._types: Tensor | None = None
        if self._positions is not None and tables.types:
            # Most texts are all of token type 0, so its row is added to the positions once, and
            # the other types are what they differ by.
            types = layers.tensor(_TYPES)
            self._positions += types[0]
            self._types = types - types[0] if len(types) > 1 and tables.segments else None
        self._norm = layers.layer_norm(_NORM, tables.eps)
        self._widen = layers.linear(tables.widening.name) if tables.widening else None

    def __call__(self, packed: Packed) -> Tensor:
        rows = torch.embedding(self._words, packed.tokens)
        if self._positions is not None:
            rows.add_(torch.embedding(self._positions, self._place(packed)))
        if packed.types is not None and self._types is not None:
            rows.add_(torch.embedding(self._types, packed.types))
        normed = self._norm(rows)
        return normed if self._widen is None else self._widen(normed).to(normed.dtype)


def _from_zero(packed: Packed) -> Tensor:
    return packed.positions


def _after(padding: int) -> Place:
    """Positions from ``padding + 1``; padding itself stands at `padding` and does not count.

    Nothing is padded here, yet a text may hold that token. Source:
    `transformers.models.roberta.modeling_roberta.RobertaEmbeddings`.
    """

    def place(packed: Packed) -> Tensor:
        is_padding = packed.tokens == padding
        seen = is_padding.cumsum(0)
        firsts = torch.arange(packed.computed, device=seen.device) - packed.positions
        seen_in_item = seen - (seen - is_padding.long())[firsts]
        counted = packed.positions - seen_in_item + padding + 1
        return torch.where(is_padding, padding, counted)

    return place
