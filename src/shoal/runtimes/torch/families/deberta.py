"""DeBERTa, versions 2 and 3 (He et al., 2020, 2021): BERT's blocks with disentangled attention.

Reference: `transformers.models.deberta_v2.modeling_deberta_v2`.
"""

from __future__ import annotations

import math
from typing import Literal

import msgspec
import torch
from torch import Tensor

from shoal.runtimes.torch.attention import Attention
from shoal.runtimes.torch.blocks import Names
from shoal.runtimes.torch.families import postnorm
from shoal.runtimes.torch.families.base import Family
from shoal.runtimes.torch.families.disentangled import Disentangled, Distances, Slots
from shoal.runtimes.torch.families.embeddings import Tables
from shoal.runtimes.torch.families.postnorm import BERT_NAMES, BertKeys, PostNormEncoder
from shoal.runtimes.torch.families.predictions import masked_lm
from shoal.runtimes.torch.heads.layout import Classifier, Layout, Linear
from shoal.runtimes.torch.layers import Layers
from shoal.runtimes.torch.linear import Activation
from shoal.runtimes.torch.weights import Shape

_NAMES = msgspec.structs.replace(
    BERT_NAMES,
    query="attention.self.query_proj",
    key="attention.self.key_proj",
    value="attention.self.value_proj",
)
_DISTANCES = "encoder.rel_embeddings.weight"
_DISTANCE_NORM = "encoder.LayerNorm"


class DebertaConfig(BertKeys, frozen=True, kw_only=True):
    """The keys of config.json that change what is computed.

    No released model adds positions to the embeddings, has token types or a convolution but for
    version 2's large ones, which are refused.
    """

    model_type: Literal["deberta-v2"]
    position_biased_input: Literal[False]
    type_vocab_size: Literal[0] = 0
    conv_kernel_size: Literal[0] = 0
    layer_norm_eps: float = 1e-7
    relative_attention: bool = False
    pos_att_type: str | list[str] | None = None
    position_buckets: int = -1
    max_relative_positions: int = -1
    share_att_key: bool = False
    norm_rel_ebd: Literal["none", "layer_norm"] = "none"
    embedding_size: int | None = None
    attention_head_size: int | None = None
    pooler_hidden_act: Activation = "gelu"
    legacy: bool = True
    tie_word_embeddings: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        for key, said, here in (
            ("embedding_size", self.embedding_size, self.hidden_size),
            ("attention_head_size", self.attention_head_size, self.head_width),
        ):
            if said not in (None, here):
                raise ValueError(f"{key} {said} differs from what hidden_size says, {here}")
        if unknown := set(self.looks) - {"c2p", "p2c"}:
            raise ValueError(
                f"pos_att_type has {', '.join(sorted(unknown))}; computed are c2p, p2c"
            )
        if self.position_buckets > 0 and self.distances.farthest <= self.position_buckets // 2 + 1:
            raise ValueError(
                f"position_buckets {self.position_buckets} needs max_relative_positions above "
                f"{self.position_buckets // 2 + 1}"
            )

    @property
    def head_width(self) -> int:
        return self.hidden_size // self.num_attention_heads

    @property
    def looks(self) -> list[str]:
        """``c2p``: tokens look at distances; ``p2c``: distances at tokens."""
        if isinstance(self.pos_att_type, str):
            return [kind.strip() for kind in self.pos_att_type.lower().split("|")]
        return self.pos_att_type or []

    @property
    def distances(self) -> Distances:
        """How they fall into slots."""
        given = self.max_relative_positions
        farthest = given if given > 0 else self.max_position_embeddings
        buckets = max(0, self.position_buckets)
        return Distances(buckets or farthest, buckets, farthest)

    @property
    def names(self) -> Names:
        """The parts of a block."""
        return _NAMES

    @property
    def tables(self) -> Tables:
        """Those that a token's first hidden state comes from."""
        return Tables(self.vocab_size, 0, 0, self.hidden_size, self.layer_norm_eps)

    def projections(self, at: str) -> dict[str, str]:
        """Of distances in the block of this name: ``c2p`` and ``p2c`` -> the product's name."""
        own = {"c2p": "pos_key_proj", "p2c": "pos_query_proj"}
        shared = {"c2p": "key_proj", "p2c": "query_proj"}
        names = shared if self.share_att_key else own
        kinds = self.looks if self.relative_attention else []
        return {kind: f"{at}.attention.self.{names[kind]}" for kind in kinds}


def _rename(stored: str) -> str | None:
    name = stored.removeprefix("deberta.")
    # Some checkpoints keep a table of positions that is not added.
    return None if name.startswith("embeddings.position_") else name


def _tensors(config: DebertaConfig) -> dict[str, Shape]:
    hidden = config.hidden_size
    shapes = postnorm.tensors(config)
    if config.relative_attention:
        shapes[_DISTANCES] = (2 * config.distances.span, hidden)
    if config.norm_rel_ebd == "layer_norm":
        shapes[f"{_DISTANCE_NORM}.weight"] = shapes[f"{_DISTANCE_NORM}.bias"] = (hidden,)
    for at in config.blocks:
        for name in config.projections(at).values():
            shapes |= {f"{name}.weight": (hidden, hidden), f"{name}.bias": (hidden,)}
    return shapes


def _heads(config: DebertaConfig) -> Layout:
    return Layout(
        sequence=Classifier(
            (Linear("pooler.dense", config.pooler_hidden_act), Linear("classifier"))
        ),
        tokens=(Linear("classifier"),),
        masked_lm=masked_lm(
            "cls.predictions" if config.legacy else "lm_predictions.lm_head",
            "LayerNorm",
            config.hidden_act,
            config.layer_norm_eps,
            tied=config.tie_word_embeddings or not config.legacy,
            transform=".transform" if config.legacy else "",
        ),
    )


def _encoder(config: DebertaConfig, layers: Layers) -> PostNormEncoder:
    scale = 1 / math.sqrt(config.head_width * (1 + len(config.looks)))
    longest = config.max_position_embeddings
    attentions = [Attention(scale=scale)] * config.num_hidden_layers
    if config.relative_attention and config.looks:
        slots = Slots(config.distances, longest, layers.device)
        layers.counted(slots.square)
        rows = _distances(config, layers)
        attentions = [
            Attention(scale=scale, bias=_bias(config, at, slots, rows, scale, layers))
            for at in config.blocks
        ]
    encoder = PostNormEncoder(config, layers, attentions)
    encoder.max_tokens = longest
    # Products with distances, what is gathered of both, and their sum beside the scores.
    seen = 2 * min(longest, config.distances.span)
    scores = config.num_attention_heads * (seen + 2 * longest)
    encoder.activation_bytes_per_token += scores * layers.dtype.itemsize
    return encoder


def _distances(config: DebertaConfig, layers: Layers) -> Tensor:
    """[slots, hidden] float32: what stands for them, as a token's hidden state for it."""
    rows = layers.read(_DISTANCES)
    if config.norm_rel_ebd == "none":
        return rows
    weight, bias = layers.read(f"{_DISTANCE_NORM}.weight"), layers.read(f"{_DISTANCE_NORM}.bias")
    return torch.layer_norm(rows, weight.shape, weight, bias, config.layer_norm_eps)


def _bias(
    config: DebertaConfig, at: str, slots: Slots, rows: Tensor, scale: float, layers: Layers
) -> Disentangled:
    """Projects the distances once for all passes."""

    def projected(name: str) -> Tensor:
        weight, bias = layers.read(f"{name}.weight"), layers.read(f"{name}.bias")
        every = scale * torch.nn.functional.linear(rows, weight, bias)
        by_head = every.view(len(rows), config.num_attention_heads, -1).permute(1, 2, 0)
        return layers.counted(by_head.to(layers.dtype).contiguous())

    names = config.projections(at)
    keys, queries = (projected(names[k]) if k in names else None for k in ("c2p", "p2c"))
    return Disentangled(slots, keys, queries)


DEBERTA = Family(DebertaConfig, _rename, _tensors, _encoder, _heads)
