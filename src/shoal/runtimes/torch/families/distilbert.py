"""DistilBERT (Sanh et al., 2019): BERT's layers under other names, without token types.

Reference: `transformers.models.distilbert.modeling_distilbert`.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from shoal.runtimes.torch.blocks import Block, Names
from shoal.runtimes.torch.families.base import Family, check_heads
from shoal.runtimes.torch.families.embeddings import WORDS, Tables
from shoal.runtimes.torch.families.postnorm import PostNormEncoder, tensors
from shoal.runtimes.torch.heads.layout import Classifier, Layout, Linear, MaskedLM, Norm
from shoal.runtimes.torch.linear import Activation

_EPS = 1e-12  # of every norm; no key says so
_NAMES = Names(
    attention_norm="sa_layer_norm",
    query="attention.q_lin",
    key="attention.k_lin",
    value="attention.v_lin",
    out="attention.out_lin",
    products_norm="output_layer_norm",
    up="ffn.lin1",
    down="ffn.lin2",
)


class DistilBertConfig(msgspec.Struct, frozen=True):
    """The keys of config.json that change what is computed.

    `sinusoidal_pos_embds` does not: such positions are stored as learnt ones are.
    """

    model_type: Literal["distilbert"]
    vocab_size: int
    dim: int
    n_layers: int
    n_heads: int
    hidden_dim: int
    max_position_embeddings: int
    activation: Activation = "gelu"
    tie_word_embeddings: bool = True

    def __post_init__(self) -> None:
        check_heads(self, "dim", "n_heads")

    @property
    def tables(self) -> Tables:
        """Those that a token's first hidden state comes from."""
        return Tables(self.vocab_size, self.max_position_embeddings, 0, self.dim, _EPS)

    @property
    def block(self) -> Block:
        """What all blocks are like."""
        return Block(_NAMES, self.dim, self.hidden_dim, self.n_heads, _EPS, self.activation)

    @property
    def blocks(self) -> list[str]:
        """What the blocks are called, first to last."""
        return [f"transformer.layer.{number}" for number in range(self.n_layers)]


def _rename(stored: str) -> str | None:
    name = stored.removeprefix("distilbert.")
    return None if name == "embeddings.position_ids" else name  # counted, not learnt


def _heads(config: DistilBertConfig) -> Layout:
    return Layout(
        sequence=Classifier((Linear("pre_classifier", "relu"), Linear("classifier"))),
        tokens=(Linear("classifier"),),
        masked_lm=MaskedLM(
            (
                Linear("vocab_transform", config.activation),
                Norm("vocab_layer_norm", _EPS),
            ),
            WORDS if config.tie_word_embeddings else "vocab_projector.weight",
            "vocab_projector.bias",
            own=("vocab_projector.weight", "vocab_projector.bias"),
        ),
    )


DISTILBERT = Family(DistilBertConfig, _rename, tensors, PostNormEncoder, _heads)
