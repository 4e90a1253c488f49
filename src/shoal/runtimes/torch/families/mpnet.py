"""MPNet (Song et al., 2020): BERT's blocks and fairseq's positions, with a bias by distance.

Reference: `transformers.models.mpnet.modeling_mpnet`.
"""

from __future__ import annotations

from itertools import repeat
from typing import Literal

from shoal.runtimes.torch.attention import Attention
from shoal.runtimes.torch.blocks import Names
from shoal.runtimes.torch.families import fairseq, postnorm
from shoal.runtimes.torch.families.base import Family
from shoal.runtimes.torch.families.embeddings import Tables
from shoal.runtimes.torch.families.postnorm import BertKeys, PostNormEncoder
from shoal.runtimes.torch.families.relative import relative_bias
from shoal.runtimes.torch.layers import Layers
from shoal.runtimes.torch.weights import Shape

_NAMES = Names(
    attention_norm="attention.LayerNorm",
    query="attention.attn.q",
    key="attention.attn.k",
    value="attention.attn.v",
    out="attention.attn.o",
    products_norm="output.LayerNorm",
    up="intermediate.dense",
    down="output.dense",
)
_BIAS = "encoder.relative_attention_bias.weight"
# The reference's code has these numbers; its config may only repeat the first.
_BUCKETS = 32
_FARTHEST = 128
_PADDING = 1


class MPNetConfig(BertKeys, frozen=True, kw_only=True):
    """The keys of config.json that change what is computed."""

    model_type: Literal["mpnet"]
    relative_attention_num_buckets: Literal[32] = 32
    tie_word_embeddings: bool = True

    @property
    def names(self) -> Names:
        """The parts of a block."""
        return _NAMES

    @property
    def tables(self) -> Tables:
        """Those that a token's first hidden state comes from."""
        return Tables(
            self.vocab_size,
            self.max_position_embeddings,
            0,
            self.hidden_size,
            self.layer_norm_eps,
            padding=_PADDING,
        )


def _rename(stored: str) -> str | None:
    name = stored.removeprefix("mpnet.")
    return None if name == "embeddings.position_ids" else name  # counted, not learnt


def _tensors(config: MPNetConfig) -> dict[str, Shape]:
    return postnorm.tensors(config) | {_BIAS: (_BUCKETS, config.num_attention_heads)}


def _encoder(config: MPNetConfig, layers: Layers) -> PostNormEncoder:
    longest = config.tables.max_tokens
    bias = relative_bias(_BIAS, layers, farthest=_FARTHEST, longest=longest)
    return PostNormEncoder(config, layers, repeat(Attention(bias=bias)))


MPNET = Family(MPNetConfig, _rename, _tensors, _encoder, fairseq.heads)
