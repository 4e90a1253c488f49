"""BERT (Devlin et al., 2018): learned positions, layer norm after each residual.

Serves `BertModel` and every ``BertFor...``, whose encoder sits under ``bert.``. Reference:
`transformers.models.bert.modeling_bert`.
"""

from __future__ import annotations

from typing import Literal

from shoal.runtimes.torch.families.base import Family
from shoal.runtimes.torch.families.postnorm import PostNormEncoder, TypedKeys, tensors
from shoal.runtimes.torch.families.predictions import masked_lm
from shoal.runtimes.torch.heads.layout import Classifier, Layout, Linear


class BertConfig(TypedKeys, frozen=True, kw_only=True):
    """The keys of config.json that change what is computed."""

    model_type: Literal["bert"]


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
