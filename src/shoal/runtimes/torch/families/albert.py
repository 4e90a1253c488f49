"""ALBERT (Lan et al., 2019): BERT with narrow embeddings, whose layers share their weights.

Reference: `transformers.models.albert.modeling_albert`.
"""

from __future__ import annotations

from typing import Literal

from msgspec.structs import replace

from shoal.runtimes.torch.blocks import Names
from shoal.runtimes.torch.families.base import Family
from shoal.runtimes.torch.families.embeddings import Tables, Widening
from shoal.runtimes.torch.families.postnorm import PostNormEncoder, TypedKeys, tensors
from shoal.runtimes.torch.families.predictions import masked_lm
from shoal.runtimes.torch.heads.layout import Classifier, Layout, Linear
from shoal.runtimes.torch.linear import Activation

_NAMES = Names(
    attention_norm="attention.LayerNorm",
    query="attention.query",
    key="attention.key",
    value="attention.value",
    out="attention.dense",
    products_norm="full_layer_layer_norm",
    up="ffn",
    down="ffn_output",
)


class AlbertConfig(TypedKeys, frozen=True, kw_only=True):
    """The keys of config.json that change what is computed."""

    model_type: Literal["albert"]
    embedding_size: int
    hidden_act: Activation = "gelu_new"
    num_hidden_groups: int = 1
    inner_group_num: Literal[1] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.num_hidden_groups <= self.num_hidden_layers:
            raise ValueError(
                f"num_hidden_groups {self.num_hidden_groups} must be from 1 to num_hidden_layers"
            )

    @property
    def names(self) -> Names:
        """The parts of a block."""
        return _NAMES

    @property
    def blocks(self) -> list[str]:
        """What the blocks are called, first to last; one name again and again is one block."""
        in_group = self.num_hidden_layers / self.num_hidden_groups
        return [
            f"encoder.albert_layer_groups.{int(number / in_group)}.albert_layers.0"
            for number in range(self.num_hidden_layers)
        ]

    @property
    def tables(self) -> Tables:
        """Those that a token's first hidden state comes from."""
        widening = Widening("encoder.embedding_hidden_mapping_in", self.hidden_size)
        return replace(super().tables, width=self.embedding_size, widening=widening)


def _rename(stored: str) -> str | None:
    name = stored.removeprefix("albert.")
    return None if name == "embeddings.position_ids" else name  # counted, not learnt


def _heads(config: AlbertConfig) -> Layout:
    return Layout(
        sequence=Classifier((Linear("pooler", "tanh"), Linear("classifier"))),
        tokens=(Linear("classifier"),),
        masked_lm=masked_lm(
            "predictions",
            "LayerNorm",
            config.hidden_act,
            config.layer_norm_eps,
            tied=config.tie_word_embeddings,
        ),
    )


ALBERT = Family(AlbertConfig, _rename, tensors, PostNormEncoder, _heads)
