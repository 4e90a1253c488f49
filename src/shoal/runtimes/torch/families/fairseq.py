"""The heads of models that were trained with fairseq: RoBERTa and MPNet.

Reference: `transformers.models.roberta.modeling_roberta`.
"""

from __future__ import annotations

from typing import Protocol

from shoal.runtimes.torch.families.predictions import masked_lm
from shoal.runtimes.torch.heads.layout import Classifier, Layout, Linear


class _Config(Protocol):
    @property
    def layer_norm_eps(self) -> float: ...

    @property
    def tie_word_embeddings(self) -> bool: ...


def heads(config: _Config) -> Layout:
    """Where their tensors lie."""
    return Layout(
        sequence=Classifier((Linear("classifier.dense", "tanh"), Linear("classifier.out_proj"))),
        tokens=(Linear("classifier"),),
        masked_lm=masked_lm(
            "lm_head",
            "layer_norm",
            "gelu",
            config.layer_norm_eps,
            tied=config.tie_word_embeddings,
        ),
    )
