"""RoBERTa (Liu et al., 2019) and its kin: BERT whose positions start behind the padding token's.

XLM-RoBERTa and CamemBERT compute the same. Reference:
`transformers.models.roberta.modeling_roberta`.
"""

from __future__ import annotations

from typing import Literal

from msgspec.structs import replace

from shoal.runtimes.torch.families import fairseq
from shoal.runtimes.torch.families.base import Family
from shoal.runtimes.torch.families.embeddings import Tables
from shoal.runtimes.torch.families.postnorm import PostNormEncoder, TypedKeys, tensors


class RobertaConfig(TypedKeys, frozen=True, kw_only=True):
    """The keys of config.json that change what is computed."""

    model_type: Literal["roberta", "xlm-roberta", "camembert"]
    pad_token_id: int = 1

    @property
    def tables(self) -> Tables:
        """Those that a token's first hidden state comes from."""
        # Tokenizers of these models tell no segments: everything is of type 0.
        return replace(super().tables, padding=self.pad_token_id, segments=False)


def _rename(stored: str) -> str | None:
    name = stored.removeprefix("roberta.")
    return None if name == "embeddings.position_ids" else name  # counted, not learnt


ROBERTA = Family(RobertaConfig, _rename, tensors, PostNormEncoder, fairseq.heads)
