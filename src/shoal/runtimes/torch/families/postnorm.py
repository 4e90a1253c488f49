"""What BERT and its descendants share: tables of embeddings, then equal blocks.

A family says which tables, and what its blocks' parts are called. Reference:
`transformers.models.bert.modeling_bert`.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat
from typing import Literal, Protocol

import msgspec
from torch import Tensor

from shoal.runtimes.torch.attention import Attention
from shoal.runtimes.torch.blocks import Block, Names, PostNorm
from shoal.runtimes.torch.families.base import check_heads
from shoal.runtimes.torch.families.embeddings import Embeddings, Tables
from shoal.runtimes.torch.layers import Layers
from shoal.runtimes.torch.linear import Activation
from shoal.runtimes.torch.packed import Packed
from shoal.runtimes.torch.weights import Shape

BERT_NAMES = Names(
    attention_norm="attention.output.LayerNorm",
    query="attention.self.query",
    key="attention.self.key",
    value="attention.self.value",
    out="attention.output.dense",
    products_norm="output.LayerNorm",
    up="intermediate.dense",
    down="output.dense",
)


_TO_ALL = repeat(Attention())


class Described(Protocol):
    """A config that says what its encoder is made of."""

    @property
    def tables(self) -> Tables:
        """Those that a token's first hidden state comes from."""

    @property
    def block(self) -> Block:
        """What all blocks are like."""

    @property
    def blocks(self) -> list[str]:
        """What the blocks are called, first to last; one name again and again is one block."""


class BertKeys(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of config.json that most of these families share with BERT."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    max_position_embeddings: int
    layer_norm_eps: float = 1e-12
    hidden_act: Activation = "gelu"

    def __post_init__(self) -> None:
        check_heads(self, "hidden_size", "num_attention_heads")

    @property
    def names(self) -> Names:
        """The parts of a block."""
        return BERT_NAMES

    @property
    def block(self) -> Block:
        """What all blocks are like."""
        return Block(
            self.names,
            self.hidden_size,
            self.intermediate_size,
            self.num_attention_heads,
            self.layer_norm_eps,
            self.hidden_act,
        )

    @property
    def blocks(self) -> list[str]:
        """What the blocks are called, first to last."""
        return [f"encoder.layer.{number}" for number in range(self.num_hidden_layers)]


class TypedKeys(BertKeys, frozen=True, kw_only=True):
    """Those of models whose tokens have a position and a type, as BERT's have."""

    type_vocab_size: int = 2
    position_embedding_type: Literal["absolute"] = "absolute"
    is_decoder: Literal[False] = False
    tie_word_embeddings: bool = True

    @property
    def tables(self) -> Tables:
        """Those that a token's first hidden state comes from."""
        return Tables(
            self.vocab_size,
            self.max_position_embeddings,
            self.type_vocab_size,
            self.hidden_size,
            self.layer_norm_eps,
        )


def tensors(config: Described) -> dict[str, Shape]:
    """All tensors of the encoder, by shape."""
    shapes = config.tables.tensors()
    for at in config.blocks:
        shapes |= config.block.tensors(at)
    return shapes


class PostNormEncoder:
    """The encoder; see `Encoder` for its attributes."""

    def __init__(
        self, config: Described, layers: Layers, attentions: Iterable[Attention] = _TO_ALL
    ) -> None:
        """`attentions`: how each block attends."""
        tables, block = config.tables, config.block
        self.vocabulary = tables.words
        self.max_tokens = tables.max_tokens
        self.width = block.hidden
        self.activation_bytes_per_token = block.bytes_per_token(layers)
        self._embed = Embeddings(tables, layers)
        loaded = {  # once, where several blocks share their tensors
            at: PostNorm(msgspec.structs.replace(block, attention=attention), at, layers)
            for at, attention in dict(zip(config.blocks, attentions, strict=False)).items()
        }
        self._blocks = [loaded[at] for at in config.blocks]

    def forward(self, packed: Packed) -> Tensor:
        """Hidden states after the last block, [computed, hidden]."""
        hidden = self._embed(packed)
        for block in self._blocks:
            hidden = block(hidden, packed)
        return hidden
