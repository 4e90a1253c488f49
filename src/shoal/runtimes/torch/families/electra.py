"""ELECTRA (Clark et al., 2020), the discriminator: BERT whose embeddings may be narrower.

Reference: `transformers.models.electra.modeling_electra`.
"""

from __future__ import annotations

from typing import Literal

from msgspec.structs import replace

from shoal.runtimes.torch.families.base import Family
from shoal.runtimes.torch.families.embeddings import WORDS, Tables, Widening
from shoal.runtimes.torch.families.postnorm import PostNormEncoder, TypedKeys, tensors
from shoal.runtimes.torch.heads.layout import Classifier, Layout, Linear, MaskedLM, Norm


class ElectraConfig(TypedKeys, frozen=True, kw_only=True):
    """The keys of config.json that change what is computed."""

    model_type: Literal["electra"]
    embedding_size: int

    @property
    def tables(self) -> Tables:
        """Those that a token's first hidden state comes from."""
        narrower = self.embedding_size != self.hidden_size
        widening = Widening("embeddings_project", self.hidden_size) if narrower else None
        return replace(super().tables, width=self.embedding_size, widening=widening)


def _rename(stored: str) -> str | None:
    name = stored.removeprefix("electra.")
    return None if name == "embeddings.position_ids" else name  # counted, not learnt


def _heads(config: ElectraConfig) -> Layout:
    return Layout(
        sequence=Classifier((Linear("classifier.dense", "gelu"), Linear("classifier.out_proj"))),
        tokens=(Linear("classifier"),),
        masked_lm=MaskedLM(
            (
                Linear("generator_predictions.dense", "gelu"),
                Norm("generator_predictions.LayerNorm", config.layer_norm_eps),
            ),
            WORDS if config.tie_word_embeddings else "generator_lm_head.weight",
            "generator_lm_head.bias",
            own=("generator_lm_head.weight", "generator_lm_head.bias"),
        ),
    )


ELECTRA = Family(ElectraConfig, _rename, tensors, PostNormEncoder, _heads)
