"""The heads of models that were trained with fairseq: RoBERTa and MPNet.

Reference: `transformers.models.roberta.modeling_roberta`.
"""

from __future__ import annotations

from typing import Protocol

from shoal.runtimes.torch.families.embeddings import WORDS
from shoal.runtimes.torch.heads.layout import Classifier, Layout, Linear, MaskedLM, Norm


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
        masked_lm=MaskedLM(
            (
                Linear("lm_head.dense", "gelu"),
                Norm("lm_head.layer_norm", config.layer_norm_eps),
            ),
            *(
                (WORDS, "lm_head.bias")
                if config.tie_word_embeddings
                else ("lm_head.decoder.weight", "lm_head.decoder.bias")
            ),
        ),
    )
