"""What a generator would answer to a question: yes or no (Qwen3-Reranker and its kind).

Of all logits of the next token only two are computed. Reference: `sentence_transformers`
(LogitScore).
"""

from __future__ import annotations

from typing import Any

import msgspec
from torch import Tensor

from shoal.errors import ModelLoadFailed
from shoal.runtimes.torch.heads.base import Ground, Head, HeadOutput, read_options
from shoal.runtimes.torch.heads.pooling import last
from shoal.runtimes.torch.packed import Packed


class YesNoOptions(msgspec.Struct, frozen=True):
    """Token ids of the two answers."""

    yes: int
    no: int


def yes_no(options: dict[str, Any], ground: Ground) -> Head:
    """Rows [items, 1]: the logit of yes less that of no, whose sigmoid is the share of yes."""
    asked = read_options(options, YesNoOptions)
    table = ground.layout.generator
    if table is None:
        raise ModelLoadFailed("this family generates nothing")
    for token in (asked.yes, asked.no):
        if not 0 <= token < ground.vocabulary:
            raise ModelLoadFailed(f"token id {token} is not in 0 to {ground.vocabulary - 1}")
    yes, no = ground.layers.rows(table, [asked.yes, asked.no])
    towards = (yes.float() - no.float())[:, None]

    def compute(hidden: Tensor, packed: Packed) -> HeadOutput:
        return HeadOutput(last(hidden, packed) @ towards)

    return Head(compute)
