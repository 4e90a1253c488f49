"""The families, each as tiny as it can be while nothing in it is a special case."""

from __future__ import annotations

from tests.runtimes.torch.families.near_bert import NEAR_BERT
from tests.runtimes.torch.families.near_llama import NEAR_LLAMA
from tests.runtimes.torch.families.rotary_bert import ROTARY_BERT
from tests.runtimes.torch.families.row import Row
from tests.runtimes.torch.families.t5_row import T5

ROWS: dict[str, Row] = {row.family: row for row in (*NEAR_BERT, *ROTARY_BERT, *NEAR_LLAMA, T5)}
