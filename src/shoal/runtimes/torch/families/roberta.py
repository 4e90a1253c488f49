"""RoBERTa (Liu et al., 2019) and its kin: BERT whose positions start behind the padding token's.

XLM-RoBERTa and CamemBERT compute the same. Reference:
`transformers.models.roberta.modeling_roberta`.
"""

from __future__ import annotations

from typing import Literal

from shoal.runtimes.torch.families import fairseq
from shoal.runtimes.torch.families.base import Family
from shoal.runtimes.torch.families.embeddings import Tables
from shoal.runtimes.torch.families.postnorm import BertKeys, PostNormEncoder, tensors


class RobertaConfig(BertKeys, frozen=True, kw_only=True):
    """The keys of config.json that change what is computed."""

    model_type: Literal["roberta", "xlm-roberta", "camembert"]
    type_vocab_size: int = 2
    pad_token_id: int = 1
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
            padding=self.pad_token_id,
            # Tokenizers of these models tell no segments: everything is of type 0.
            segments=False,
        )


def _rename(stored: str) -> str | None:
    name = stored.removeprefix("roberta.")
    return None if name == "embeddings.position_ids" else name  # counted, not learnt


ROBERTA = Family(RobertaConfig, _rename, tensors, PostNormEncoder, fairseq.heads)
