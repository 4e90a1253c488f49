"""BERT (Devlin et al., 2018): learned positions, layer norm after each residual.

Serves `BertModel` and every ``BertFor...``, whose encoder sits under ``bert.``. Reference:
`transformers.models.bert.modeling_bert`.
"""

from __future__ import annotations

from typing import Literal

from shoal.runtimes.torch.families.base import Family
from shoal.runtimes.torch.families.embeddings import Tables
from shoal.runtimes.torch.families.postnorm import BertKeys, PostNormEncoder, tensors
from shoal.runtimes.torch.families.predictions import masked_lm
from shoal.runtimes.torch.heads.layout import Classifier, Layout, Linear


class BertConfig(BertKeys, frozen=True, kw_only=True):
    """The keys of config.json that change what is computed."""

    model_type: Literal["bert"]
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


def _rename(stored: str) -> str | None:
    name = stored.removeprefix("bert.")
    if name == "embeddings.position_ids":  # counted, not learnt
        return None
    # Checkpoints converted from TensorFlow name layer norms so.
    return name.replace("LayerNorm.gamma", "LayerNorm.weight").replace(
        "LayerNorm.beta", "LayerNorm.bias"
    )


def _heads(config: BertConfig) -> Layout:
    return Layout(
        sequence=Classifier((Linear("pooler.dense", "tanh"), Linear("classifier"))),
        tokens=(Linear("classifier"),),
        masked_lm=masked_lm(
            "cls.predictions",
            "LayerNorm",
            config.hidden_act,
            config.layer_norm_eps,
            tied=config.tie_word_embeddings,
            transform=".transform",
        ),
    )


BERT = Family(BertConfig, _rename, tensors, PostNormEncoder, _heads)
